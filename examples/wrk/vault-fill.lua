-- Writes each secret that vault-read.lua reads, once.
--
--   VAULT_TOKEN=… wrk -t1 -c16 -d20s -s vault-fill.lua http://127.0.0.1:8200 -- [KEYS] [MOUNT]
--
-- KEYS is how many secrets there are to be (1000), MOUNT where the store is (secret). They are
-- MOUNT/wrk/1 to MOUNT/wrk/KEYS, and each holds 100 bytes. One thread does: each further one would write
-- them all again. The run takes its whole time, also when all are written before, so its rate says
-- nothing. The token comes from the environment, so that no list of processes shows it; a
-- `-H 'X-Vault-Token: …'` goes before it.

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
  written = 0
  -- The first thread is asked for a request before the load begins, which is never sent.
  last = id == 1 and -1 or 0
end

-- Nothing tells which request an answer is to. But writes alone are answered with 204: when there are
-- as many of those as writes, all were acknowledged. Until then a connection with nothing left to write reads.
function request()
  last = last + 1
  if last > keys then return wrk.format("GET", start .. 1) end
  local key = math.max(last, 1)
  local value = ("secret %d "):format(key)
  value = value .. ("x"):rep(100 - #value)
  return wrk.format("POST", start .. key, nil, '{"value":"' .. value .. '"}')
end

-- Counts answers by their status, each in a number of its own: `thread:get` passes on numbers for sure.
function response(status)
  local name = "status_" .. status
  _G[name] = (_G[name] or 0) + 1
  if status == 204 then
    written = written + 1
    if written == keys then wrk.thread:stop() end
  end
end

function done(summary, latency, requests)
  local most, keys = 0, threads[1]:get("keys")
  for _, thread in ipairs(threads) do most = math.max(most, thread:get("written")) end
  for status = 100, 599 do
    local answers = 0
    for _, thread in ipairs(threads) do
      answers = answers + (thread:get("status_" .. status) or 0)
    end
    if answers > 0 then print(("  %d answers with status %d"):format(answers, status)) end
  end
  print(("  %d of %d secrets written"):format(most, keys))
  if most < keys then print("  give it more time, or look at the statuses") end
end
