-- Asks over connections that are kept, with a deliberate fault that a published connector has.
--
-- It keeps no account of which connections were greeted before, and waits for Tarantool's greeting on those
-- too that come out of the pool. Tarantool greets once, so nothing comes: the wait ends with the socket's
-- timeout, the connection is closed, the request has failed, and the next one finds the pool a connection
-- shorter. With as many connections as clients, about every second request fails, after the timeout.

local iproto = require "bakeoff.iproto"

local greets_again = {}

function greets_again.check(session, resource, server)
  local sock = ngx.socket.tcp()
  sock:settimeout(server.timeout)
  local fine, why = sock:connect(server.host, server.port)
  if not fine then return nil, "no connection: " .. why end
  -- The fault: `getreusedtimes` would tell that there is nothing to wait for.
  fine, why = iproto.greet(sock, server.user, server.password)
  local granted
  if fine then
    granted, why = iproto.call(sock, "check_access", session, resource)
  end
  if granted == nil then
    sock:close()
    return nil, why
  end
  sock:setkeepalive()
  return granted
end

return greets_again
