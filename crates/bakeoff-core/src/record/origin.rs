//! Marks a record's lines with a secret key of the user whose bakeoff wrote them.
//!
//! A record names programs to execute. The mark tells records that this user's bakeoff wrote from those of anybody
//! else, wherever their files come from: the owner of a downloaded file is the user who downloaded it. The mark of a
//! line covers the hash of the line before it ([`super::chain`]), so one valid mark at the end vouches for every line.
//!
//! Not here: the key's file (`bakeoff_trial::run::origin`).

use sha2::{Digest as _, Sha256};

/// Field of a line that holds its mark.
const FIELD: &str = "origin_mac";
/// Length of a mark: a SHA-256 in hexadecimal.
const MARK: usize = 64;
/// Bytes of a block of SHA-256.
const BLOCK: usize = 64;

/// Key of one user. It never leaves this user's own folder.
#[derive(Clone, PartialEq, Eq)]
pub struct OriginKey([u8; 32]);

impl std::fmt::Debug for OriginKey {
    fn fmt(&self, to: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        to.write_str("OriginKey(…)")
    }
}

impl OriginKey {
    /// Takes the key's random bytes.
    pub fn new(bytes: [u8; 32]) -> Self {
        Self(bytes)
    }

    /// Adds a mark to a line, an object in JSON without its newline.
    pub(super) fn mark(&self, line: &mut String) {
        line.truncate(line.len() - 1);
        line.push_str(&format!(",\"{FIELD}\":\""));
        let mark = self.mac(line.as_bytes());
        line.push_str(&mark);
        line.push_str("\"}");
    }

    pub(super) fn marked(&self, line: &[u8]) -> bool {
        let Some(rest) = line.strip_suffix(b"\"}") else { return false };
        let Some((marked, mark)) = rest.len().checked_sub(MARK).map(|at| rest.split_at(at)) else {
            return false;
        };
        marked.ends_with(format!(",\"{FIELD}\":\"").as_bytes())
            && self.mac(marked).as_bytes() == mark
    }

    /// Computes HMAC-SHA-256 (RFC 2104), in hexadecimal.
    fn mac(&self, text: &[u8]) -> String {
        let mut padded = [0; BLOCK];
        padded[..self.0.len()].copy_from_slice(&self.0);
        let keyed = |pad: u8| Sha256::new_with_prefix(padded.map(|byte| byte ^ pad));
        let inner = keyed(0x36).chain_update(text).finalize();
        let outer = keyed(0x5c).chain_update(inner).finalize();
        outer.iter().map(|byte| format!("{byte:02x}")).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::super::chain::Chain;
    use super::super::{RecordLine, RunResumed};
    use super::*;

    fn key(byte: u8) -> OriginKey {
        OriginKey::new([byte; 32])
    }

    fn lines(chain: &mut Chain, count: usize) -> Vec<String> {
        let line = |number: usize| {
            let (resumed, bakeoff) = (String::new(), format!("line {number}"));
            let environment = Box::default();
            chain.link(&RecordLine::Resumed(RunResumed { resumed, bakeoff, environment }))
        };
        (0..count).map(line).collect()
    }

    #[test]
    fn mac_is_that_of_the_standard() {
        // RFC 4231, test case 2, whose key is shorter than ours and padded with zeros in the same way.
        let mut bytes = [0; 32];
        bytes[..4].copy_from_slice(b"Jefe");
        let mac = OriginKey::new(bytes).mac(b"what do ya want for nothing?");
        assert_eq!(mac, "5bdcc146bf60754e6a042426089575c75a003f089d2739839dec58b964ec3843");
    }

    #[test]
    fn key_vouches_only_for_unchanged_records_of_its_own() {
        let own = lines(&mut Chain::new(Some(key(1))), 3);
        for line in &own {
            RecordLine::parse(line).unwrap();
        }
        let vouches = |lines: &[String]| key(1).vouches_for(lines.concat().as_bytes());
        assert!(vouches(&own));
        assert!(vouches(&own[..2]), "interrupted");
        assert!(vouches(&[&own[..], &["torn".to_owned()]].concat()), "killed");
        assert!(!key(2).vouches_for(own.concat().as_bytes()), "of another user");
        assert!(!vouches(&[]) && !vouches(&own[1..]) && !vouches(&["\n".to_owned()]));
        assert!(!vouches(&lines(&mut Chain::new(None), 3)), "without marks");
        assert!(!vouches(&lines(&mut Chain::new(Some(key(2))), 3)));
        for place in 0..3 {
            let mut changed = own.clone();
            changed[place] = changed[place].replace("line ", "evil ");
            assert!(!vouches(&changed), "line {place}");
            changed.remove(place);
            assert_eq!(vouches(&changed), place == 2, "without line {place}");
        }
        // A stranger continues the record, or puts a line of another run in front.
        let mut stranger = Chain::behind(own.concat().as_bytes(), Some(key(2)));
        assert!(!vouches(&[&own[..], &lines(&mut stranger, 1)].concat()));
        assert!(!vouches(&[&own[..], &lines(&mut Chain::new(None), 1)].concat()));
        let mut other = lines(&mut Chain::new(None), 1);
        other.push(own[1].clone());
        assert!(!vouches(&other));
    }
}
