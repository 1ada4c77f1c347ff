//! Declares the fields of services of any kind: their command, and HTTP requests to them.

use super::{Form, Table, always, default, maybe};

pub(in crate::study) static PROCESS: Table = Table {
    name: "process",
    meaning: "A command that serves. `{address}` stands for the address that it is to listen on, `{port}` \
              for the port that clients connect to, `{port:NAME}` for another one of its own, `{dir}` \
              for the folder of its data, in which it is started, `{here}` for the folder that bakeoff was \
              started in, `{node}` for its name, and `{ROLE}` for the address of a part, as `127.0.0.1:8080`. `{{port}}` is the text itself.",
    one_of: &[],
    fields: &[
        always(
            "command",
            Form::List(&Form::Text),
            "[./gateway, --listen, \"{address}:{port}\"]",
            "The program, from `PATH` or by its path, and its arguments. It stays in the foreground.",
        ),
        maybe(
            "environment",
            Form::Open(&Form::AsWritten),
            "{LOG_LEVEL: warn, TOKEN: $TOKEN}",
            "What its environment holds beyond `PATH`, `HOME`, `LANG` and `TMPDIR`; `$NAME` is what \
             bakeoff's own holds, which is how a secret gets there.",
        ),
        maybe(
            "files",
            Form::Open(&Form::AsWritten),
            "{gateway.conf: \"listen {port}\"}",
            "Files that are written into its folder before it starts.",
        ),
        maybe(
            "ready",
            Form::Text,
            "/health",
            "The path that answers with a success once it can serve; without it, that it takes a \
             connection is enough.",
        ),
    ],
};

pub(in crate::study) static REQUEST: Table = Table {
    name: "request",
    meaning: "A request over HTTP.",
    one_of: &[],
    fields: &[
        default("method", Form::Text, "GET", "Its method."),
        default(
            "path",
            Form::Text,
            "/",
            "Path and query. Words in braces differ from request to request, here as in headers and body: `{key}`, \
             the number of a key, of which there are as many as `keys` says; `{sequence}`, that of the request; \
             `{client}`, that of the client; `{random:8}`, so many random characters; `{name}`, a column of \
             `rows`; `{name:json}`, the same escaped for a string of JSON. `{{key}}` is the text itself.",
        ),
        maybe(
            "headers",
            Form::Open(&Form::AsWritten),
            "{accept: text/html, authorization: $TOKEN}",
            "Headers beyond `Host` and those of the body; `$NAME` is what bakeoff's environment holds.",
        ),
        default(
            "http2",
            Form::Flag,
            "false",
            "HTTP/2 in place of HTTP/1.1: by agreement over TLS, without TLS with prior knowledge. A client then \
             has as many requests under way on its connection as the load's `in-flight` says.",
        ),
        maybe("body", Form::AsWritten, "name=value", "What is sent."),
        maybe(
            "rows",
            Form::Table(&ROWS),
            "{file: users.csv}",
            "A table whose columns words in braces may name; each request takes the next of its rows.",
        ),
        maybe(
            "expect",
            Form::Table(&EXPECT),
            "{status: 200, body-size: 43}",
            "What the answer must be; anything else is an error.",
        ),
    ],
};

pub(in crate::study) static ROWS: Table = Table {
    name: "rows",
    meaning: "A table of values for requests.",
    one_of: &[],
    fields: &[
        always(
            "file",
            Form::Text,
            "users.csv",
            "A CSV file (RFC 4180), by its path from the folder that bakeoff is started in; its first row names the \
             columns.",
        ),
        maybe(
            "sha256",
            Form::Text,
            "9f86d081884c7d659a2feaa0c55ad015a3bf4f1b2b0b822cd15d6c15b0f00a08",
            "The file's SHA-256; another file is refused.",
        ),
    ],
};

pub(in crate::study) static EXPECT: Table = Table {
    name: "expect",
    meaning: "What a right answer is.",
    one_of: &[],
    fields: &[
        default(
            "status",
            Form::OneOrMany(&Form::Status),
            "2xx",
            "Its status, or several that are right: a number, `2xx`, a range as `200-299`, or a list of them. A text \
             may have commas, as `load --expect-status` takes it.",
        ),
        maybe(
            "headers",
            Form::Open(&Form::AsWritten),
            "{content-type: application/json}",
            "Header fields that it has, each with exactly this value. Capitals in names do not matter.",
        ),
        maybe(
            "body-size",
            Form::Whole { min: 0, max: 1 << 30 },
            "43",
            "How long its body is, in bytes; any length by default.",
        ),
        maybe("contains", Form::AsWritten, "welcome", "A text that its body holds."),
    ],
};
