//! Tests that `bakeoff load` prints no secrets.

use std::io::{Read as _, Write as _};
use std::net::TcpListener;

use crate::load::load;
use crate::support::canary::Canary;
use crate::support::folders;

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
