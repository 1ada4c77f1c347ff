-- Asks over kept connections, with a deliberate fault that a published connector has.
--
-- It waits for Tarantool's greeting on pooled connections too. Tarantool greets only once, so the wait ends
-- with the socket's timeout, the request fails, and the connection is closed. The pool then has one connection
-- less. With as many connections as clients, about every second request fails, after the timeout.

local iproto = require "bakeoff.iproto"

local greets_again = {}

function greets_again.check(session, resource, server)
  local sock, why = iproto.connected(server)
  if not sock then return nil, why end
  -- The fault: `getreusedtimes` would show that no greeting will come.
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
