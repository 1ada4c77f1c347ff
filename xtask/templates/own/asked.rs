
/// A request of Newcomer: its words, and its value.
type NewcomerRequest = (&'static [&'static [u8]], Option<&'static [u8]>);

/// Requests of Newcomer, all sent at once.
///
/// FILL IN: all that a session will ever ask, with errors, binary and 20,000 bytes among it.
pub(crate) const NEWCOMER: &[NewcomerRequest] =
    &[(&[b"PUT", b"bakeoff/a"], Some(b"one")), (&[b"GET", b"bakeoff/a"], None)];
