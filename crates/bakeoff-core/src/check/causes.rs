//! Recognizes causes in servers' error messages, and suggests what to try.
//!
//! The words are the servers' own: etcd's `rpctypes`, Consul's `http_max_conns_per_client` and `request_limits`,
//! Vault's `vault.ErrBarrierSealed`, ZooKeeper's `KeeperException`.
//!
//! Not here: counting errors (`measurement`).

/// Words of a server, and what to try.
const CAUSES: [(&str, &str); 9] = [
    (
        "database space exceeded",
        "etcd's quota is full: compact and defragment it, disarm its alarm, or raise `quota-backend-bytes`",
    ),
    (
        "too many requests",
        "the server turns away what it cannot do in time: use fewer clients or a lower rate",
    ),
    (
        "too many concurrent connections",
        "Consul takes 200 connections of one address: use fewer clients, or raise `limits.http_max_conns_per_client`",
    ),
    (
        "rate limit exceeded",
        "Consul's `limits.request_limits` are reached: use a lower rate, or raise them",
    ),
    ("Vault is sealed", "unseal it: it answers nothing until then"),
    ("local node not active", "it steps down or seals: look for its leader in its log"),
    ("permission denied", "give the study's user the right to it, or other credentials"),
    (
        "invalid auth token",
        "the token has expired: name `user` and `password` in `credentials` to sign in again",
    ),
    (
        "request is too large",
        "the server's limit on requests is smaller than the value: use smaller `values`",
    ),
];

/// Appends a hint to a server's words if they name a known cause.
pub fn with_hint(what: &str) -> String {
    hint(what).map_or_else(|| what.to_owned(), |hint| format!("{what} ({hint})"))
}

/// Returns a hint if a server's words name a known cause.
fn hint(what: &str) -> Option<&'static str> {
    CAUSES.iter().find(|(words, _)| what.contains(words)).map(|(_, hint)| *hint)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn causes_are_recognized_by_the_servers_own_words() {
        let full = "gRPC RESOURCE_EXHAUSTED: etcdserver: mvcc: database space exceeded";
        assert!(hint(full).is_some_and(|hint| hint.contains("quota")));
        assert!(hint("503: Vault is sealed").is_some_and(|hint| hint.starts_with("unseal")));
        assert_eq!(hint("500: something else"), None);
        assert_eq!(with_hint("500: something else"), "500: something else");
        assert!(with_hint("429: rate limit exceeded").ends_with("lower rate, or raise them)"));
    }
}
