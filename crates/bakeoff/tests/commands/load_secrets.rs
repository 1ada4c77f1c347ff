//! Tests that `bakeoff load` prints no secrets.

use std::io::{Read as _, Write as _};
use std::net::TcpListener;

use crate::load::load;
use crate::support::canary::Canary;
use crate::support::{CommandOutput, bakeoff, folders};

#[test]
fn secrets_are_not_printed() {
    let canary = Canary::start("");
    let url = format!("http://ann:hunter2@{}/health?token=hunter2", canary.address);
    for more in [&[][..], &["--json"], &["--expect-status", "404"]] {
        let ran = load(&[&[url.as_str(), "-n", "5", "-H", "X-Key: hunter2"], more].concat());
        assert!(ran.stdout.contains("/health?token=***"), "{}", ran.stdout);
        ran.says_nothing_of("hunter2");
    }
}

/// Returns the address of a server that serves each request with user `ann` and password `hunter2`, and no other.
fn guarded() -> std::net::SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    std::thread::spawn(move || {
        for socket in listener.incoming() {
            let mut socket = socket.unwrap();
            std::thread::spawn(move || {
                let mut buffer = [0; 4096];
                while let Ok(count @ 1..) = socket.read(&mut buffer) {
                    let asked = String::from_utf8_lossy(&buffer[..count]).into_owned();
                    let status = match asked.contains("Authorization: Basic YW5uOmh1bnRlcjI=") {
                        true => "200 OK",
                        false => "401 Unauthorized",
                    };
                    let answer = format!("HTTP/1.1 {status}\r\nContent-Length: 2\r\n\r\nok");
                    socket.write_all(answer.as_bytes()).ok();
                }
            });
        }
    });
    address
}

#[test]
fn password_stays_out_of_the_list_of_processes() {
    let address = guarded();
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("user");
    let file_text = file.to_str().unwrap();
    std::fs::write(&file, "ann:hunter2\n").unwrap();
    let url = format!("http://{address}/");
    let warned = "in its list of processes";
    let ran = load(&[&url, "-n", "5", "--user-file", file_text]);
    assert_eq!(ran.code, Some(0), "{}", ran.stderr);
    assert!(!ran.stderr.contains(warned), "{}", ran.stderr);
    ran.says_nothing_of("hunter2");
    for (words, name, code) in [
        (&["load", &url, "-n", "5"][..], "BAKEOFF_USER", 0),
        (&["load", &url, "-n", "5"], "OTHER", 1),
        (&["hey", "-n", "5", "-c", "1", &url], "BAKEOFF_USER", 0),
    ] {
        let ran = CommandOutput::run(bakeoff().args(words).env(name, "ann:hunter2"));
        assert_eq!(ran.code, Some(code), "{words:?}: {}{}", ran.stdout, ran.stderr);
        assert!(!ran.stderr.contains(warned), "{}", ran.stderr);
        ran.says_nothing_of("hunter2");
    }
    let known = format!("http://ann:hunter2@{address}/");
    for words in [
        &["load", &known, "-n", "5"][..],
        &["load", &url, "-n", "5", "-H", "X-Vault-Token: hunter2"],
        &["hey", "-n", "5", "-c", "1", &known],
        &["hey", "-n", "5", "-c", "1", "-a", "ann:hunter2", &url],
        &["wrk", "-d", "1", "-c", "1", "-t", "1", &known],
        &["vault-benchmark", "run", "-vault_token=hunter2", "-config=/none"],
    ] {
        let ran = CommandOutput::run(bakeoff().args(words));
        assert!(ran.stderr.contains(warned), "{words:?}: {}", ran.stderr);
        ran.says_nothing_of("hunter2");
    }
    std::fs::write(&file, "ann hunter2").unwrap();
    let ran = load(&[&url, "-n", "5", "--user-file", file_text]);
    assert_eq!(ran.code, Some(2));
    assert!(ran.stderr.contains("it holds one line, `USER:PASSWORD`"), "{}", ran.stderr);
    ran.says_nothing_of("hunter2");
}

#[test]
fn byte_order_mark_of_a_file_of_requests_is_skipped() {
    let canary = Canary::start("");
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("targets");
    std::fs::write(&file, format!("\u{feff}GET http://{}/health\n", canary.address)).unwrap();
    let ran = load(&["--targets", file.to_str().unwrap(), "-n", "5"]);
    assert_eq!(ran.code, Some(0), "{}", ran.stderr);
}

#[test]
fn secrets_echoed_by_a_server_are_masked() {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("http://{}/page?token=hunter2-of-the-url", listener.local_addr().unwrap());
    // The server echoes each request.
    std::thread::spawn(move || {
        for socket in listener.incoming() {
            let mut socket = socket.unwrap();
            std::thread::spawn(move || {
                let mut buffer = [0; 4096];
                while let Ok(count @ 1..) = socket.read(&mut buffer) {
                    let asked = String::from_utf8_lossy(&buffer[..count]).into_owned();
                    // The example is cut in the middle of the token.
                    let at = asked.find("Bearer").unwrap_or(0).saturating_sub(40);
                    let (head, body) = ("HTTP/1.1 403 No\r\nContent-Length: ", &asked[at..]);
                    let answer = format!("{head}{}\r\n\r\n{body}", body.len());
                    socket.write_all(answer.as_bytes()).ok();
                }
            });
        }
    });
    let dir = tempfile::tempdir().unwrap();
    let header = "Authorization: Bearer hunter2-of-the-header";
    let more = ["-n", "20", "-c", "2", "-H", header, "-H", "Cookie: session=hunter2-of-the-cookie"];
    for form in [&[][..], &["--json"], &["--out", dir.path().to_str().unwrap()]] {
        let ran = load(&[&[url.as_str()], &more[..], form].concat());
        let output = format!("{}{}", ran.stdout, ran.stderr);
        assert!(output.contains("Authorization: ***"), "{output}");
        ran.says_nothing_of("hunter2");
    }
    for file in std::fs::read_dir(&folders(dir.path())[0]).unwrap() {
        let bytes = std::fs::read(file.unwrap().path()).unwrap();
        let text = String::from_utf8_lossy(&bytes);
        assert!(!text.contains("hunter2"), "{text}");
    }
}

#[test]
fn header_without_a_colon_is_rejected_unprinted() {
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("targets");
    std::fs::write(&file, "GET http://127.0.0.1:1/\nX-Token s3cret-token\n").unwrap();
    let ran = load(&["--targets", file.to_str().unwrap(), "-n", "1"]);
    assert_eq!(ran.code, Some(2), "{}", ran.stderr);
    assert!(ran.stderr.contains(":2") && ran.stderr.contains("with a `:`"), "{}", ran.stderr);
    assert!(!ran.stderr.contains("s3cret"), "{}", ran.stderr);
}
