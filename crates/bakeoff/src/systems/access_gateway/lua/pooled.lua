-- Asks over connections that are kept: Tarantool greets each once, so its greeting is waited for, and a name
-- and a password are given, on a connection that has not been used before.

local iproto = require "bakeoff.iproto"

-- How long a connection may lie unused, in milliseconds, and how many may.
local IDLE, POOL_SIZE = 60000, 256

local pooled = {}

function pooled.check(session, resource, server)
  local sock = ngx.socket.tcp()
  sock:settimeout(server.timeout)
  local fine, why = sock:connect(server.host, server.port)
  if not fine then return nil, "no connection: " .. why end
  local reused
  reused, why = sock:getreusedtimes()
  if not reused then
    sock:close()
    return nil, why
  end
  if reused == 0 then
    fine, why = iproto.greet(sock, server.user, server.password)
    if not fine then
      sock:close()
      return nil, why
    end
  end
  local granted
  granted, why = iproto.call(sock, "check_access", session, resource)
  if granted == nil then
    sock:close()
    return nil, why
  end
  -- Whether it can be kept changes nothing of what was answered.
  sock:setkeepalive(IDLE, POOL_SIZE)
  return granted
end

return pooled
