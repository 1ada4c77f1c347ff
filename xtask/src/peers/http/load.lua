-- Runs in both wrk and bakeoff. Each request has a random path and a JSON body built for it, and each
-- response's status and one of its headers are checked.

local fields = { ["Content-Type"] = "application/json" }
local odd = 0

function init(args)
  math.randomseed(tonumber(args[1]) or 1)
end

function request()
  local id = math.random(1000000)
  local price = math.random(100, 99999)
  local body = string.format('{"id":%d,"name":"item-%07d","cents":%d}', id, id, price)
  return wrk.format("POST", "/items/" .. id, fields, body)
end

function response(status, headers, body)
  if status ~= 200 or headers["Content-Type"] ~= "text/plain" then
    odd = odd + 1
    if odd == 1 then
      wrk.thread:set("first_odd_status", status)
    end
  end
end
