//! Feeds altered inputs to the readers of other tools' files and command lines.

fn words(input: &[u8]) -> Vec<String> {
    String::from_utf8_lossy(input).split(' ').map(str::to_owned).collect()
}

#[test]
fn no_vault_benchmark_configuration_panics_or_leaks_a_secret() {
    const SECRET: &str = "tops3cret";
    let file = format!(
        "vault_token = \"{SECRET}\"\nduration = \"10s\"\ntest \"userpass_auth\" \"logins\" {{\n  weight = 100\n  \
         config {{\n    username = \"u\"\n    password = \"{SECRET}\"\n  }}\n}}\n"
    );
    let database = format!(
        "test \"postgresql_secret\" \"db\" {{ weight = 100\n config {{ db_connection {{ connection_url = \
         \"postgresql://h/d\"\n password = \"{SECRET}\"\n }} }} }}"
    );
    let corpus = [file.as_bytes(), database.as_bytes(), b"a = [1, {b = true}, <<EOT\nx\nEOT\n]"];
    let pieces =
        ["{", "}", "= [", "<<EOT\n", "${", "weight = ", "test \"kvv2_read\" \"r\" {", "\"", "0x"];
    bakeoff_fuzz::run("hcl", &corpus, &pieces, |input| {
        let text = String::from_utf8_lossy(input);
        let printed = crate::vault_benchmark::messages_for(&text);
        // A secret under another name is ordinary text, and so is a line of a here-document.
        let is_named = |line: &str| {
            ["password", "vault_token"]
                .iter()
                .any(|name| line.trim() == format!("{name} = \"{SECRET}\""))
        };
        let is_secret = |line: &&str| line.contains(SECRET);
        if !text.contains("<<") && text.lines().filter(is_secret).all(is_named) {
            assert!(!printed.contains(SECRET), "{printed}");
        }
    });
}

#[test]
fn no_dbtester_configuration_panics() {
    let example = crate::dbtester::example();
    let corpus: [&[u8]; 2] = [
        example.as_bytes(),
        b"all_database_id_list: [etcd__tip]\ndatatbase_id_to_config_client_machine_agent_control: {etcd__tip: ~}",
    ];
    let pieces = [
        "etcd__tip:",
        "- ",
        "\n  ",
        "[1, 2]",
        "&a ",
        "*a",
        "99999999999999999999",
        "yes",
        "{",
        "# ",
    ];
    bakeoff_fuzz::run("dbtester's configuration", &corpus, &pieces, |input| {
        let text = String::from_utf8_lossy(input);
        if let Ok((config, _)) = crate::dbtester::read("fuzz.yaml", &text) {
            for group in &config.groups {
                assert!(config.analysis(group.database).is_some(), "{text}");
            }
        }
    });
}

#[test]
fn no_table_panics() {
    let corpus: [&[u8]; 2] = [b"A,B\n1,\"x \"\"y\"\"\"\n2,\n", b"UNIX-SECOND,CPU-NUM\r\n1,2.5\r\n"];
    let pieces = ["\"", ",", "\n", "\r\n", "1e400", "-0", "NaN", "\"\"", "\u{202e}"];
    bakeoff_fuzz::run("tables", &corpus, &pieces, |input| {
        if let Ok(frame) = crate::dbtester::Frame::read(&String::from_utf8_lossy(input)) {
            let again = crate::dbtester::Frame::read(&frame.csv());
            assert_eq!(again, Ok(frame.clone()));
            for name in &frame.header {
                frame.numbers(name).ok();
            }
        }
    });
}

#[test]
fn no_command_line_panics() {
    let corpus: [&[u8]; 6] = [
        b"-t2 -c10 -d 1s --latency http://127.0.0.1:1/x",
        b"-R 1000 -H Host:x -s script.lua --timeout 2s http://[::1]:1/",
        b"-n 100 -c 5 -m POST -d body -H a:b http://127.0.0.1:1/",
        b"-z 1s -q 5.5 -host x -T text/plain https://h",
        b"--endpoints=a:1,b:2 --conns 3 put --key-size=8 --sequential-keys --total 5 --rate 10",
        b"txn-mixed a b --rw-ratio 0.5 --limit=10 --consistency s --user root:pw --dial-timeout 2s",
    ];
    let pieces = [" ", "--", "-", "=", "-c", "1k", "\u{ff10}", "http://", "@", ":65536", "%"];
    bakeoff_fuzz::run("command lines", &corpus, &pieces, |input| {
        let words = words(input);
        crate::wrk::reads(&words);
        crate::hey::reads(&words);
        crate::etcd_benchmark::reads(&words);
    });
}
