-- Reads random secrets from a KV store of Vault or OpenBao, version 1: those that vault-fill.lua wrote.
--
--   VAULT_TOKEN=… wrk -t4 -c16 -d30s -s vault-read.lua http://127.0.0.1:8200 -- [KEYS] [MOUNT]
--
-- KEYS is how many secrets there are (1000), MOUNT where the store is (secret). They are
-- MOUNT/wrk/1 to MOUNT/wrk/KEYS. The token comes from the environment, so that no list of processes
-- shows it; a `-H 'X-Vault-Token: …'` goes before it.

local threads = {}

-- Runs once for each thread, before it begins, in a Lua state of its own. The states of the threads
-- share nothing: what they are to know is set, what they have counted is fetched in `done`.
function setup(thread)
  threads[#threads + 1] = thread
  thread:set("id", #threads)
end

function init(args)
  keys = tonumber(args[1] or 1000)
  local mount = args[2] or "secret"
  local token = os.getenv("VAULT_TOKEN")
  if not keys or keys < 1 then
    io.stderr:write("the number of keys is not a number above 0: ", args[1], "\n")
    os.exit(2)
  end
  if not wrk.headers["X-Vault-Token"] then
    if not token or token == "" then
      io.stderr:write("VAULT_TOKEN is not set\n")
      os.exit(2)
    end
    wrk.headers["X-Vault-Token"] = token
  end
  start = "/v1/" .. mount .. "/wrk/"
  -- Other keys in each thread, and the same ones in each run.
  math.randomseed(id)
end

function request()
  return wrk.format("GET", start .. math.random(keys))
end

-- Counts answers by their status, each in a number of its own: `thread:get` passes on numbers for sure.
function response(status)
  local name = "status_" .. status
  _G[name] = (_G[name] or 0) + 1
end

function done(summary, latency, requests)
  local missed = 0
  for status = 100, 599 do
    local answers = 0
    for _, thread in ipairs(threads) do
      answers = answers + (thread:get("status_" .. status) or 0)
    end
    if answers > 0 then
      print(("  %d answers with status %d"):format(answers, status))
      if status ~= 200 then missed = missed + answers end
    end
  end
  if missed > 0 then
    print(("  %d secrets were not read: is the token valid, and did vault-fill.lua write them all?"):format(missed))
  end
end
