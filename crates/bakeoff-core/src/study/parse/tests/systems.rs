//! Tests invalid systems.

use super::check;
use crate::study::testing::kinds;
use crate::suggest::list;

#[test]
fn unknown_kind_is_rejected() {
    check(
        &[("kind: etcd", "kind: ectd")],
        r"
error: unknown kind `ectd` of system `three`
 --> my.yaml:4:17
  |
4 |   three: {kind: ectd, nodes: 3}
  |                 ^^^^
hint: did you mean `etcd`?
",
    );
    check(
        &[("kind: etcd", "kind: valkey")],
        r"
error: unknown kind `valkey` of system `three`
 --> my.yaml:4:17
  |
4 |   three: {kind: valkey, nodes: 3}
  |                 ^^^^^^
hint: write `kind: redis` and `options: {product: valkey}`
",
    );
    let kinds = kinds();
    let known = kinds.iter().filter(|kind| !kind.is_part()).map(|kind| kind.name);
    let known = list(&known.collect::<Vec<_>>());
    check(
        &[("kind: etcd", "kind: mongodb")],
        &format!(
            r"
error: unknown kind `mongodb` of system `three`
 --> my.yaml:4:17
  |
4 |   three: {{kind: mongodb, nodes: 3}}
  |                 ^^^^^^^
hint: known kinds: {known}
"
        ),
    );
}

#[test]
fn more_nodes_than_the_kind_allows_is_rejected() {
    check(
        &[("{kind: canary}", "{kind: canary, nodes: 3}")],
        r"
error: system `one` asks for 3 nodes
 --> my.yaml:3:30
  |
3 |   one: {kind: canary, nodes: 3}
  |                              ^
hint: a system of kind `canary` has at most 1 node
",
    );
    check(
        &[("nodes: 3", "nodes: 0")],
        r"
error: `nodes` must be from 1 to 99, not `0`
 --> my.yaml:4:30
  |
4 |   three: {kind: etcd, nodes: 0}
  |                              ^
hint: as in `nodes: 1`
",
    );
    check(
        &[("nodes: 3", "nodes: 11")],
        r"
error: system `three` asks for 11 nodes
 --> my.yaml:4:30
  |
4 |   three: {kind: etcd, nodes: 11}
  |                              ^^
hint: a system of kind `etcd` has at most 9 nodes
",
    );
}

#[test]
fn unknown_option_is_rejected() {
    check(
        &[("{kind: canary}", "{kind: canary, options: {snyc: each}}")],
        r"
error: kind `canary` has no option `snyc`
 --> my.yaml:3:33
  |
3 |   one: {kind: canary, options: {snyc: each}}
  |                                 ^^^^
hint: did you mean `sync`?
",
    );
    check(
        &[("{kind: canary}", "{kind: canary, options: {sync: every}}")],
        r"
error: `sync` cannot be `every`
 --> my.yaml:3:39
  |
3 |   one: {kind: canary, options: {sync: every}}
  |                                       ^^^^^
hint: known words: `each`, `none` and `claimed`
",
    );
    check(
        &[("{kind: canary}", "{kind: canary, options: {lose: 2}}")],
        r"
error: `lose`: `2` is not a share
 --> my.yaml:3:39
  |
3 |   one: {kind: canary, options: {lose: 2}}
  |                                       ^
hint: it is more than 100 %; did you mean `2%`?
",
    );
    check(
        &[("{kind: canary}", "{kind: canary, options: {delay: 5}}")],
        r"
error: `delay`: `5` is not a duration
 --> my.yaml:3:40
  |
3 |   one: {kind: canary, options: {delay: 5}}
  |                                        ^
hint: it has no unit; did you mean `5s`?
",
    );
    check(
        &[("nodes: 3", "options: {snapshot-count: many}")],
        r"
error: `snapshot-count`: `many` is not a whole number
 --> my.yaml:4:49
  |
4 |   three: {kind: etcd, options: {snapshot-count: many}}
  |                                                 ^^^^
hint: write it in digits alone: `10000`
",
    );
    check(
        &[("nodes: 3", "options: {quota: 2G}")],
        r"
error: `quota`: `2G` is not a size
 --> my.yaml:4:40
  |
4 |   three: {kind: etcd, options: {quota: 2G}}
  |                                        ^^
hint: did you mean `2GiB` (powers of 1024) or `2GB`?
",
    );
    check(
        &[("nodes: 3", "options: {quota: }")],
        r"
error: `quota` must be a text or a number, not nothing
 --> my.yaml:4:38
  |
4 |   three: {kind: etcd, options: {quota: }}
  |                                      ^
",
    );
    check(
        &[("nodes: 3", "options: [quota]")],
        r"
error: `options` must be a mapping, not a list
 --> my.yaml:4:32
  |
4 |   three: {kind: etcd, options: [quota]}
  |                                ^^^^^^^
hint: write `options: {heap: 1GiB}`
",
    );
}

#[test]
fn version_is_dotted_numbers() {
    check(
        &[("nodes: 3", "version: v3.6")],
        r"
error: `v3.6` is not a version
 --> my.yaml:4:32
  |
4 |   three: {kind: etcd, version: v3.6}
  |                                ^^^^
hint: did you mean `3.6`?
",
    );
    check(
        &[("nodes: 3", "version: latest")],
        r"
error: `latest` is not a version
 --> my.yaml:4:32
  |
4 |   three: {kind: etcd, version: latest}
  |                                ^^^^^^
hint: write dotted numbers, `3.6.1`, or the first of them; without `version` bakeoff takes what it finds
",
    );
}

#[test]
fn empty_limits_are_rejected() {
    check(
        &[("nodes: 3", "limits: {}")],
        r"
error: `limits` of system `three` limits nothing
 --> my.yaml:4:23
  |
4 |   three: {kind: etcd, limits: {}}
  |                       ^^^^^^
hint: write `limits: {cpu: 0.5, memory: 1GiB}`, or leave it out
",
    );
    check(
        &[("nodes: 3", "limits: {cpu: 0}")],
        r"
error: `cpu` must be more than 0 and at most 1024, not `0`
 --> my.yaml:4:37
  |
4 |   three: {kind: etcd, limits: {cpu: 0}}
  |                                     ^
hint: as in `cpu: 0.5`
",
    );
    check(
        &[("nodes: 3", "limits: {memory: 1KiB}")],
        r"
error: `memory` must be from 1 MiB to 1 PiB, not `1KiB`
 --> my.yaml:4:40
  |
4 |   three: {kind: etcd, limits: {memory: 1KiB}}
  |                                        ^^^^
hint: as in `memory: 1GiB`
",
    );
    check(
        &[("nodes: 3", "limits: {cpu: half}")],
        r"
error: `cpu` must be a number, not `half`
 --> my.yaml:4:37
  |
4 |   three: {kind: etcd, limits: {cpu: half}}
  |                                     ^^^^
hint: as in `cpu: 0.5`
",
    );
}

#[test]
fn running_system_is_not_started() {
    check(
        &[("nodes: 3", "nodes: 3, version: 3, endpoints: [\"a:1\"]")],
        r#"
error: system `three` has both `endpoints` and `nodes`
 --> my.yaml:4:23
  |
4 |   three: {kind: etcd, nodes: 3, version: 3, endpoints: ["a:1"]}
  |                       ^^^^^
hint: a system with `endpoints` already runs; leave out `nodes`, which says what to start

error: system `three` has both `endpoints` and `version`
 --> my.yaml:4:33
  |
4 |   three: {kind: etcd, nodes: 3, version: 3, endpoints: ["a:1"]}
  |                                 ^^^^^^^
hint: a system with `endpoints` already runs; leave out `version`, which says what to start
"#,
    );
    check(
        &[("nodes: 3", "program: p, limits: {cpu: 1}, endpoints: [\"a:1\"]")],
        r#"
error: system `three` has both `endpoints` and `program`
 --> my.yaml:4:23
  |
4 |   three: {kind: etcd, program: p, limits: {cpu: 1}, endpoints: ["a:1"]}
  |                       ^^^^^^^
hint: a system with `endpoints` already runs; leave out `program`, which says what to start

error: system `three` has both `endpoints` and `limits`
 --> my.yaml:4:35
  |
4 |   three: {kind: etcd, program: p, limits: {cpu: 1}, endpoints: ["a:1"]}
  |                                   ^^^^^^
hint: a system with `endpoints` already runs; leave out `limits`, which says what to start
"#,
    );
}

#[test]
fn endpoint_is_a_host_and_a_port() {
    check(
        &[("nodes: 3", "endpoints: [\"localhost\"]")],
        r#"
error: `endpoints`: `localhost` is not an endpoint
 --> my.yaml:4:35
  |
4 |   three: {kind: etcd, endpoints: ["localhost"]}
  |                                   ^^^^^^^^^^^
hint: it has no port; write `http://HOST:PORT`, `https://HOST:PORT` or `HOST:PORT`
"#,
    );
    check(
        &[("nodes: 3", "endpoints: [\"ftp://a:1\"]")],
        r#"
error: `endpoints`: `ftp://a:1` is not an endpoint
 --> my.yaml:4:35
  |
4 |   three: {kind: etcd, endpoints: ["ftp://a:1"]}
  |                                   ^^^^^^^^^^^
hint: it cannot be reached by `ftp`; write `http://HOST:PORT`, `https://HOST:PORT` or `HOST:PORT`
"#,
    );
    check(
        &[("nodes: 3", "endpoints: [\"http://a:1/v1\"]")],
        r#"
error: `endpoints`: `http://a:1/v1` is not an endpoint
 --> my.yaml:4:35
  |
4 |   three: {kind: etcd, endpoints: ["http://a:1/v1"]}
  |                                   ^^^^^^^^^^^^^^^
hint: it has a path; write `http://HOST:PORT`, `https://HOST:PORT` or `HOST:PORT`
"#,
    );
    check(
        &[("nodes: 3", "endpoints: [\"http://me@a:1\"]")],
        r#"
error: `endpoints`: `http://me@a:1` is not an endpoint
 --> my.yaml:4:35
  |
4 |   three: {kind: etcd, endpoints: ["http://me@a:1"]}
  |                                   ^^^^^^^^^^^^^^^
hint: it names a user; write `http://HOST:PORT`, `https://HOST:PORT` or `HOST:PORT`
"#,
    );
    check(
        &[("nodes: 3", "endpoints: [\"::1:2379\"]")],
        r#"
error: `endpoints`: `::1:2379` is not an endpoint
 --> my.yaml:4:35
  |
4 |   three: {kind: etcd, endpoints: ["::1:2379"]}
  |                                   ^^^^^^^^^^
hint: write an IPv6 address in brackets: `[::1]:2379`
"#,
    );
    check(
        &[("nodes: 3", "endpoints: [\"[::1:2379\"]")],
        r#"
error: `endpoints`: `[::1:2379` is not an endpoint
 --> my.yaml:4:35
  |
4 |   three: {kind: etcd, endpoints: ["[::1:2379"]}
  |                                   ^^^^^^^^^^^
hint: the bracket `[` is not closed
"#,
    );
    check(
        &[("nodes: 3", "endpoints: [\"[x]:2379\"]")],
        r#"
error: `endpoints`: `[x]:2379` is not an endpoint
 --> my.yaml:4:35
  |
4 |   three: {kind: etcd, endpoints: ["[x]:2379"]}
  |                                   ^^^^^^^^^^
hint: `x` is not an IPv6 address
"#,
    );
    check(
        &[("nodes: 3", "endpoints: [\"a:0\"]")],
        r#"
error: `endpoints`: `a:0` is not an endpoint
 --> my.yaml:4:35
  |
4 |   three: {kind: etcd, endpoints: ["a:0"]}
  |                                   ^^^^^
hint: a port is a number from 1 to 65535
"#,
    );
    check(
        &[("nodes: 3", "endpoints: [\"a:99999\"]")],
        r#"
error: `endpoints`: `a:99999` is not an endpoint
 --> my.yaml:4:35
  |
4 |   three: {kind: etcd, endpoints: ["a:99999"]}
  |                                   ^^^^^^^^^
hint: a port is a number from 1 to 65535
"#,
    );
    check(
        &[("nodes: 3", "endpoints: [\":2379\"]")],
        r#"
error: `endpoints`: `:2379` is not an endpoint
 --> my.yaml:4:35
  |
4 |   three: {kind: etcd, endpoints: [":2379"]}
  |                                   ^^^^^^^
hint: it has no name or address; write `http://HOST:PORT`, `https://HOST:PORT` or `HOST:PORT`
"#,
    );
    check(
        &[("nodes: 3", "endpoints: [\"a:1\", \"http://a:1\"]")],
        r#"
error: endpoint `a:1` is listed twice
 --> my.yaml:4:42
  |
4 |   three: {kind: etcd, endpoints: ["a:1", "http://a:1"]}
  |                                          ^^^^^^^^^^^^
"#,
    );
    check(
        &[("nodes: 3", "endpoints: a:1")],
        r#"
error: `endpoints` must be a list, not `a:1`
 --> my.yaml:4:34
  |
4 |   three: {kind: etcd, endpoints: a:1}
  |                                  ^^^
hint: write `endpoints: ["https://10.0.0.5:2379"]`
"#,
    );
    check(
        &[("nodes: 3", "endpoints: []")],
        r#"
error: `endpoints` is an empty list
 --> my.yaml:4:34
  |
4 |   three: {kind: etcd, endpoints: []}
  |                                  ^^
hint: write `endpoints: ["https://10.0.0.5:2379"]`
"#,
    );
}

#[test]
fn tls_needs_an_https_endpoint() {
    check(
        &[("nodes: 3", "tls: {ca: ca.pem}")],
        r"
error: system `three` has `tls` and no `https://` endpoint
 --> my.yaml:4:23
  |
4 |   three: {kind: etcd, tls: {ca: ca.pem}}
  |                       ^^^
hint: write `https://` before the endpoints, or leave `tls` out
",
    );
    check(
        &[("nodes: 3", "endpoints: [\"http://a:1\"], tls: {ca: ca.pem}")],
        r#"
error: system `three` has `tls` and no `https://` endpoint
 --> my.yaml:4:50
  |
4 |   three: {kind: etcd, endpoints: ["http://a:1"], tls: {ca: ca.pem}}
  |                                                  ^^^
hint: write `https://` before the endpoints, or leave `tls` out
"#,
    );
    check(
        &[("nodes: 3", "endpoints: [\"https://a:1\"], tls: {cert: c.pem}")],
        r#"
error: `tls` of system `three` has `cert` without `key`
 --> my.yaml:4:57
  |
4 |   three: {kind: etcd, endpoints: ["https://a:1"], tls: {cert: c.pem}}
  |                                                         ^^^^
hint: a client shows a certificate and proves it with its key
"#,
    );
    check(
        &[("nodes: 3", "endpoints: [\"https://a:1\"], tls: {ca: c.pem, insecure: true}")],
        r#"
error: `tls` of system `three` has `ca`, but `insecure: true` accepts any certificate
 --> my.yaml:4:57
  |
4 |   three: {kind: etcd, endpoints: ["https://a:1"], tls: {ca: c.pem, insecure: true}}
  |                                                         ^^
hint: leave out one of the two
"#,
    );
}
