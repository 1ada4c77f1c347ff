-- Asks over connections that are kept, with a deliberate fault that a published connector has.
--
-- It keeps no account of which connections were greeted before, and waits for Tarantool's greeting on those
-- too that come out of the pool. Tarantool greets once, so nothing comes: the wait ends with the socket's
-- timeout, the connection is closed, the request has failed, and the next one finds the pool a connection
-- shorter. With as many connections as clients, about every second request fails, after the timeout.

local iproto = require "bakeoff.iproto"

local greets_again = {}

function greets_again.check(session, resource, server)
  local sock, why = iproto.connected(server)
  if not sock then return nil, why end
  -- The fault: `getreusedtimes` would tell that there is nothing to wait for.
  local granted
  granted, why = iproto.greet_and_check(sock, server, session, resource)
  if granted == nil then
    sock:close()
    return nil, why
  end
  sock:setkeepalive()
  return granted
end

return greets_again
