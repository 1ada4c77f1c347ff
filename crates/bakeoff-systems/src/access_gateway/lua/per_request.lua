-- Asks over a new connection each time: connect, handshake, ask, close.

local iproto = require "bakeoff.iproto"

local per_request = {}

function per_request.check(session, resource, server)
  local sock, why = iproto.connected(server)
  if not sock then return nil, why end
  local granted
  granted, why = iproto.greet_and_check(sock, server, session, resource)
  sock:close()
  return granted, why
end

return per_request
