-- Asks over connections that are kept: Tarantool greets each once, so its greeting is waited for, and a name
-- and a password are given, on a connection that has not been used before.

local iproto = require "bakeoff.iproto"

-- How long a connection may lie unused, in milliseconds, and how many may.
local IDLE, POOL_SIZE = 60000, 256

local pooled = {}

function pooled.check(session, resource, server)
  local sock, why = iproto.connected(server)
  if not sock then return nil, why end
  local reused
  reused, why = sock:getreusedtimes()
  if not reused then
    sock:close()
    return nil, why
  end
  local granted
  if reused == 0 then
    granted, why = iproto.greet_and_check(sock, server, session, resource)
  else
    granted, why = iproto.check(sock, session, resource)
  end
  if granted == nil then
    sock:close()
    return nil, why
  end
  -- Whether it can be kept changes nothing of what was answered.
  sock:setkeepalive(IDLE, POOL_SIZE)
  return granted
end

return pooled
