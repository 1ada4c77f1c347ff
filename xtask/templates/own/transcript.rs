
/// Asks everything at once.
fn replay_newcomer(pieces: &[&[u8]]) -> Vec<String> {
    let mut session = bakeoff_wire::newcomer::Session::default();
    let mut out = Vec::new();
    for (words, value) in asked::NEWCOMER {
        session.request(words, *value, &mut out).unwrap();
    }
    let mut seen = Vec::new();
    for piece in pieces {
        session.receive(piece, &mut |reply| seen.push(format!("{reply:?}"))).unwrap();
    }
    seen
}

#[test]
fn a_newcomer_session_is_understood() {
    // FILL IN: the version of the server, and how it was understood.
    let expected = [""];
    check("newcomer-1.0.0-session", replay_newcomer, &expected);
}
