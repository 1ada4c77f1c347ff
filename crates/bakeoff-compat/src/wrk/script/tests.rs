//! Runs small scripts and checks them against wrk's behaviour.

use std::ffi::OsString;
use std::io::Write as _;
use std::time::Duration;

use bakeoff_wire::http1::{Connection, Limits};

use super::super::options::{self, WrkCommand};
use super::super::output::SocketErrors;
use super::*;

struct Case {
    _dir: tempfile::TempDir,
    options: Options,
}

fn case(source: &str) -> Case {
    case_with(source, &[])
}

fn case_with(source: &str, more: &[&str]) -> Case {
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("test.lua");
    std::fs::File::create(&file).unwrap().write_all(source.as_bytes()).unwrap();
    let mut args = vec![OsString::from("-s"), file.into(), "http://h:81/p?q#f".into()];
    args.extend(more.iter().map(OsString::from));
    match options::parse(args) {
        Ok(WrkCommand::Run(options)) => Case { _dir: dir, options: *options },
        other => panic!("{other:?}"),
    }
}

/// Returns a thread's state after `init`.
fn begun(case: &Case) -> Result<Script, ScriptError> {
    let script = Script::new(&case.options, Some(0))?;
    script.begin(&Arc::default())?;
    script.init(&case.options.args)?;
    Ok(script)
}

#[track_caller]
fn asked(source: &str) -> String {
    let script = begun(&case(source)).unwrap_or_else(|error| panic!("{error}"));
    let text = script.request().unwrap_or_else(|error| panic!("{error}"));
    text.to_string_lossy()
}

/// Returns the first line, the sorted headers and the body: a hash table orders the headers.
#[track_caller]
fn lines(request: &str) -> (String, Vec<String>, String) {
    let (head, body) = request.split_once("\r\n\r\n").expect("a head ends with an empty line");
    let mut lines = head.split("\r\n").map(str::to_owned);
    let first = lines.next().unwrap_or_default();
    let mut headers: Vec<String> = lines.collect();
    headers.sort();
    (first, headers, body.to_owned())
}

#[track_caller]
fn check(source: &str, first: &str, headers: &[&str], body: &str) {
    let request = asked(source);
    let (found_first, found_headers, found_body) = lines(&request);
    assert_eq!((&*found_first, &*found_body), (first, body), "{source}");
    assert_eq!(found_headers, headers, "{source}");
}

#[test]
fn lua_is_compiled_while_it_runs() {
    assert!(asked("request = function() return tostring(jit.status()) end") == "true");
}

#[test]
fn a_request_is_made_of_what_the_table_holds() {
    check("", "GET /p?q#f HTTP/1.1", &["Host: h:81"], "");
    check(
        "wrk.method = 'POST' wrk.body = 'abc' wrk.headers['X'] = 7 wrk.headers.Yes = true",
        "POST /p?q#f HTTP/1.1",
        &["Content-Length: 3", "Host: h:81", "X: 7", "Yes: true"],
        "abc",
    );
    check(
        "request = function() return wrk.format('PUT', '/a', {A = 'b'}, 'x') end",
        "PUT /a HTTP/1.1",
        &["A: b", "Content-Length: 1", "Host: h:81"],
        "x",
    );
    check("init = function() wrk.path = '/late' end", "GET /late HTTP/1.1", &["Host: h:81"], "");
    check("wrk.headers.Host = 'other'", "GET /p?q#f HTTP/1.1", &["Host: other"], "");
    let both = "request = function() return wrk.format(nil, '/1') .. wrk.format(nil, '/2') end";
    assert_eq!(
        asked(both),
        "GET /1 HTTP/1.1\r\nHost: h:81\r\n\r\nGET /2 HTTP/1.1\r\nHost: h:81\r\n\r\n"
    );
}

#[test]
fn format_completes_the_headers_that_it_is_given() {
    let source = "local mine = {}
        request = function()
          wrk.format(nil, nil, mine, 'four')
          return mine.Host .. ' ' .. mine['Content-Length']
        end";
    assert_eq!(asked(source), "h:81 4");
    let emptied = "request = function()
          wrk.format(nil, nil, nil, 'four')
          return wrk.format()
        end";
    assert!(!asked(emptied).contains("Content-Length"));
}

#[test]
fn arguments_begin_with_the_url_at_zero() {
    let case = case_with(
        "init = function(args) first = args[0] .. ' ' .. args[1] .. ' ' .. #args end
         request = function() return first end",
        &["--", "one", "-two"],
    );
    let text = begun(&case).unwrap().request().unwrap().to_string_lossy();
    assert_eq!(text, "http://h:81/p?q#f one 2");
}

#[test]
fn another_request_function_takes_over_at_once() {
    let case = case(
        "function request()
           request = function() return 'second' end
           return 'first'
         end",
    );
    let script = begun(&case).unwrap();
    assert_eq!(script.request().unwrap().to_string_lossy(), "first");
    assert_eq!(script.request().unwrap().to_string_lossy(), "second");
}

#[test]
fn wants_only_the_parameters_of_response() {
    let wants = |source: &str| begun(&case(source)).unwrap().wants().unwrap();
    assert_eq!(wants(""), ResponseParts::default());
    assert_eq!(wants("function response() end"), ResponseParts::first(0));
    assert_eq!(wants("function response(status) end"), ResponseParts::first(1));
    assert_eq!(wants("function response(status, headers) end"), ResponseParts::first(2));
    assert_eq!(wants("function response(s, h, b) end"), ResponseParts::first(3));
    assert_eq!(wants("function response(s, ...) end"), ResponseParts::first(3));
    assert_eq!(wants("response = print"), ResponseParts::first(3), "a function in C may take all");
}

/// Passes a response with this head to the script.
fn answer(
    script: &mut Script,
    head: &str,
    body: &[u8],
    wants: ResponseParts,
) -> Result<bool, ScriptError> {
    let mut connection = Connection::new(Limits::default());
    connection.expect(false, 1).unwrap();
    let mut bytes =
        format!("HTTP/1.1 200 OK\r\n{head}Content-Length: {}\r\n\r\n", body.len()).into_bytes();
    bytes.extend_from_slice(body);
    let mut message = None;
    let mut on = |response: Response<'_>| message = Some(script.response(&response, wants));
    connection.receive(&bytes, &mut Vec::new(), &mut on).unwrap();
    message.expect("the response is whole")
}

#[test]
fn passes_the_wanted_parts_and_detects_a_replaced_response() {
    let case = case(
        "function response(status, headers, body)
           seen = status .. ' ' .. headers['X-A'] .. ' ' .. body
           response = function(status) seen = 'then ' .. status end
         end
         function request() return seen end",
    );
    let mut script = begun(&case).unwrap();
    let mut respond = |wants| answer(&mut script, "X-A: 1\r\n", b"body", wants).unwrap();
    assert!(respond(ResponseParts::default()), "the first is new, too");
    assert!(!respond(ResponseParts::first(3)));
    assert!(respond(ResponseParts::first(3)));
    assert!(!respond(ResponseParts::first(1)));
    assert_eq!(script.request().unwrap().to_string_lossy(), "then 200");
    assert_eq!(script.wants().unwrap(), ResponseParts::first(1));
    let seen = script.lua.load("return seen").eval::<String>().unwrap();
    assert_eq!(seen, "then 200");
}

#[test]
fn repeated_headers_equal_the_received_ones() {
    let case = case(
        "seen = {}
         function response(status, headers, body)
           local names = {}
           for name, value in pairs(headers) do names[#names + 1] = name .. '=' .. value end
           table.sort(names)
           seen[#seen + 1] = table.concat(names, ' ') .. ' ' .. #body
           headers.mine = 'left behind'
         end
         function request() return table.concat(seen, '; ') end",
    );
    let mut script = begun(&case).unwrap();
    let wants = ResponseParts::first(3);
    assert!(answer(&mut script, "A: 1\r\n", b"", wants).unwrap());
    for head in
        ["A: 1\r\n", "A: 1\r\n", "A: 1\r\n", "A: \"2\\\r\n", "A: \"2\\\r\n", "A: 1\r\nA: 3\r\n"]
    {
        assert!(!answer(&mut script, head, b"\xffx", wants).unwrap());
    }
    let one = "A=1 Content-Length=2 2";
    let two = "A=\"2\\ Content-Length=2 2";
    let all = [one, one, one, two, two, "A=3 Content-Length=2 2"].join("; ");
    assert_eq!(script.request().unwrap().to_string_lossy(), all);
}

#[test]
fn delays_are_whole_milliseconds() {
    let delay = |value: &str| {
        let source = format!("function delay() return {value} end");
        begun(&case(&source)).unwrap().delay().unwrap()
    };
    assert_eq!(delay("25"), Duration::from_millis(25));
    assert_eq!(delay("2.9"), Duration::from_millis(2));
    assert_eq!(delay("'7'"), Duration::from_millis(7));
    for none in ["-1", "nil", "{}", "0/0"] {
        assert_eq!(delay(none), Duration::ZERO, "{none}");
    }
}

#[test]
fn values_are_copied_between_states() {
    let case = case(
        "function setup(thread)
           thread:set('given', {1, 2, inner = {yes = true, text = 'a\\0b'}})
           thread:set('number', 1.5)
           local back = thread:get('given')
           back.inner.text = 'mine'
           thread:set('copied', thread:get('given').inner.text == 'a\\0b')
           thread:set('nothing', nil)
         end
         function request()
           return #given .. tostring(given.inner.yes) .. #given.inner.text .. number .. tostring(copied)
         end",
    );
    let (main, script) = (Script::new(&case.options, None).unwrap(), begun(&case).unwrap());
    main.lua.load("wrk.addrs = wrk.lookup('127.0.0.1', 81)").exec().unwrap();
    main.setup(script.begin(&Arc::default()).unwrap()).unwrap();
    assert_eq!(script.request().unwrap().to_string_lossy(), "2true31.5true");
}

#[test]
fn refuses_values_that_cannot_be_copied_with_their_line() {
    for (value, message) in [("print", "cannot transfer 'function'"), ("self", "holds itself")] {
        let case = case(&format!(
            "self = {{}} self.self = self\nfunction setup(thread)\n  thread:set('f', {value})\nend"
        ));
        let (main, script) = (Script::new(&case.options, None).unwrap(), begun(&case).unwrap());
        main.lua.load("wrk.addrs = wrk.lookup('127.0.0.1', 81)").exec().unwrap();
        let error = main.setup(script.begin(&Arc::default()).unwrap()).unwrap_err();
        assert_eq!(error.callback, Callback::Setup);
        assert!(error.what.contains(message) && error.what.contains("test.lua:3: "), "{error}");
    }
}

#[test]
fn threads_have_addresses_and_can_be_stopped() {
    let case = case(
        "function setup(thread)
           thread.addr = wrk.lookup('127.0.0.1', 'http')[1]
           thread:set('said', tostring(thread.addr))
         end
         function request() wrk.thread:stop() return said end",
    );
    let (main, script) = (Script::new(&case.options, None).unwrap(), begun(&case).unwrap());
    main.lua.load("wrk.addrs = wrk.lookup('127.0.0.1', 81)").exec().unwrap();
    let state = Arc::default();
    main.setup(script.begin(&state).unwrap()).unwrap();
    assert_eq!(state.address(), Some("127.0.0.1:80".parse().unwrap()));
    assert!(!state.is_stopped());
    assert_eq!(script.request().unwrap().to_string_lossy(), "127.0.0.1:80");
    assert!(state.is_stopped());
}

#[test]
fn done_sees_the_figures() {
    let case = case(
        "function done(summary, latency, requests)
           local value, count = latency(2)
           said = table.concat({
             summary.duration, summary.requests, summary.bytes, summary.errors.connect,
             summary.errors.read, summary.errors.write, summary.errors.status,
             summary.errors.timeout, latency.min, latency.max, latency.mean,
             string.format('%.3f', latency.stdev), latency:percentile(50), #latency, value, count,
             requests.max }, ' ')
         end",
    );
    let main = Script::new(&case.options, None).unwrap();
    let figures = Figures {
        runtime: Duration::from_millis(1500),
        complete: 10,
        bytes: 20,
        socket_errors: SocketErrors { connect: 1, read: 2, write: 3, timeout: 4 },
        status_errors: 5,
        latency: [(10, 2), (30, 2)].into_iter().collect(),
        rates: [(7, 1)].into_iter().collect(),
        ..Figures::default()
    };
    main.done(&figures).unwrap_or_else(|error| panic!("{error}"));
    let message: String = main.lua.globals().get("said").unwrap();
    assert_eq!(message, "1500000 10 20 1 2 3 5 4 10 30 20 11.547 30 2 30 2 7");
}

#[test]
fn errors_name_file_line_callback_and_thread() {
    let check = |source: &str, callback, message: &str| {
        let case = case(source);
        let failed = begun(&case).and_then(|mut script| {
            script.request()?;
            script.delay()?;
            answer(&mut script, "", b"", ResponseParts::first(1))?;
            answer(&mut script, "", b"", ResponseParts::first(1))
        });
        let error = failed.expect_err(source);
        let text = error.to_string();
        assert_eq!(error.callback, callback, "{text}");
        assert!(text.contains(message) && text.contains(", thread 1\n"), "{source}: {text}");
        assert!(text.contains("test.lua") && !text.contains("traceback"), "{source}: {text}");
    };
    check("x = = 1", Callback::File, "test.lua:1: unexpected symbol");
    check("\n\nnothing.x = 1", Callback::File, "test.lua:3: attempt to index");
    check("function init()\n error('no') end", Callback::Init, "test.lua:2: no");
    check(
        "function init()\n wrk.lookup('127.0.0.1', 'nosuch') end",
        Callback::Init,
        "test.lua:2: unable to resolve 127.0.0.1:nosuch",
    );
    check("function request()\n return 1 .. nil end", Callback::Request, "test.lua:2: attempt to");
    check("function request() end", Callback::Request, "it returned nil");
    check("function request() return {} end", Callback::Request, "it returned table");
    check("function delay()\n error('no') end", Callback::Delay, "test.lua:2: no");
    check(
        "function delay() end\nfunction response(s) error(s) end",
        Callback::Response,
        "test.lua:2: 200",
    );
    check("require 'missing'", Callback::File, "module 'missing' not found");
}

#[test]
fn missing_script_is_an_error() {
    let mut case = case("");
    case.options.script = Some("/nowhere/x.lua".into());
    let error = Script::new(&case.options, None).err().unwrap().to_string();
    assert!(error.contains("`/nowhere/x.lua` cannot be read: No such file"), "{error}");
}

#[test]
fn finds_modules_next_to_the_script_and_its_own_folder() {
    let case = case(
        "local adjacent = require('adjacent')
         local here = debug.getinfo(1, 'S').source:match('^@(.*)/')
         request = function() return adjacent.text .. tostring(here ~= nil) end",
    );
    let module = case.options.script.as_ref().unwrap().with_file_name("adjacent.lua");
    std::fs::write(module, "return { text = 'found ' }").unwrap();
    let text = begun(&case).unwrap().request().unwrap().to_string_lossy();
    assert_eq!(text, "found true");
}

#[test]
fn the_table_is_also_a_module() {
    assert_eq!(
        asked("local w = require 'wrk' request = function() return tostring(w == wrk) end"),
        "true"
    );
}

#[test]
fn resolve_keeps_addresses_that_accept_connections() {
    let server = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let open = server.local_addr().unwrap();
    let mut case = case("");
    case.options.url.host = "127.0.0.1".into();
    case.options.url.port = Some(open.port());
    let main = Script::new(&case.options, None).unwrap();
    assert_eq!(main.resolve(&case.options.url).unwrap(), [open]);
    drop(server);
    assert_eq!(main.resolve(&case.options.url).unwrap(), []);
}
