-- Logs in to Vault or OpenBao with a user's name and password, again and again.
--
--   VAULT_PASSWORD=… wrk -t2 -c8 -d30s -s vault-login.lua http://127.0.0.1:8200 -- [USER] [MOUNT]
--
-- USER is who logs in (loadtester), MOUNT where the userpass method is (userpass). The password comes from
-- the environment, so that no list of processes shows it. Each login makes a token, which Vault keeps until
-- it expires: let the user have batch tokens, which are not kept, or ones that live for seconds.

local threads = {}

-- Runs once for each thread, before it begins, in a Lua state of its own. The states of the threads
-- share nothing: what they have counted is fetched in `done`.
function setup(thread)
  threads[#threads + 1] = thread
end

-- All logins are the same, so the request is made once.
function init(args)
  local user, mount = args[1] or "loadtester", args[2] or "userpass"
  local password = os.getenv("VAULT_PASSWORD")
  if not password or password == "" then
    io.stderr:write("VAULT_PASSWORD is not set\n")
    os.exit(2)
  end
  -- As JSON has it: quotation marks, backslashes and control characters are escaped.
  password = password:gsub('[%c"\\]', function(byte) return ("\\u%04x"):format(byte:byte()) end)
  login = wrk.format("POST", "/v1/auth/" .. mount .. "/login/" .. user, nil, '{"password":"' .. password .. '"}')
end

function request()
  return login
end

-- Counts answers by their status, each in a number of its own: `thread:get` passes on numbers for sure.
function response(status)
  local name = "status_" .. status
  _G[name] = (_G[name] or 0) + 1
end

function done(summary, latency, requests)
  local refused = 0
  for status = 100, 599 do
    local answers = 0
    for _, thread in ipairs(threads) do
      answers = answers + (thread:get("status_" .. status) or 0)
    end
    if answers > 0 then
      print(("  %d answers with status %d"):format(answers, status))
      if status ~= 200 then refused = refused + answers end
    end
  end
  if refused > 0 then
    print(("  %d logins were refused: is the password right, and the method there?"):format(refused))
  end
end
