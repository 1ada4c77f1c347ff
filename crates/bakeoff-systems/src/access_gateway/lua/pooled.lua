-- Asks over kept connections. Tarantool greets each one once, so the handshake (greeting and login) happens
-- only on a new connection.

local iproto = require "bakeoff.iproto"

-- Longest idle time of a connection in milliseconds, and the size of the pool.
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
  -- The answer is valid even if the connection cannot be kept.
  sock:setkeepalive(IDLE, POOL_SIZE)
  return granted
end

return pooled
