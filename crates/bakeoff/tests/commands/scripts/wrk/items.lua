-- Writes items and reads them back; counts in each thread what came of it, and adds up at the end.
local names = require("names")

local threads = {}

function setup(thread)
  threads[#threads + 1] = thread
  thread:set("number", #threads)
end

function init(args)
  print(("thread %d of %s, against %s"):format(number, args[1], tostring(wrk.thread.addr)))
  counts = { sent = 0, written = 0, read = 0, wrong = 0 }
end

function request()
  counts.sent = counts.sent + 1
  local path = names.path(number, counts.sent % 10)
  if counts.sent <= 11 then return wrk.format("PUT", path, { ["X-Test"] = "yes" }, "body of " .. path) end
  return wrk.format("GET", path)
end

function response(status, headers, body)
  if status == 204 then
    counts.written = counts.written + 1
  elseif status == 200 and headers["Content-Length"] == tostring(#body) and body:find("^body of /kv/") then
    counts.read = counts.read + 1
  else
    counts.wrong = counts.wrong + 1
  end
end

function done(summary, latency, requests)
  local all = { sent = 0, written = 0, read = 0, wrong = 0 }
  for _, thread in ipairs(threads) do
    for name, count in pairs(thread:get("counts")) do all[name] = all[name] + count end
  end
  print(("done: %d written, %d read, %d wrong, %d answered"):format(all.written, all.read, all.wrong, summary.requests))
  print(("latency: %s"):format(tostring(latency.min <= latency:percentile(50) and latency:percentile(50) <= latency.max)))
end
