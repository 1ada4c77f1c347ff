-- Asks over a connection of its own each time: made, greeted, asked, closed.

local iproto = require "bakeoff.iproto"

local per_request = {}

function per_request.check(session, resource, server)
  local sock = ngx.socket.tcp()
  sock:settimeout(server.timeout)
  local fine, why = sock:connect(server.host, server.port)
  if not fine then return nil, "no connection: " .. why end
  fine, why = iproto.greet(sock, server.user, server.password)
  local granted
  if fine then
    granted, why = iproto.call(sock, "check_access", session, resource)
  end
  sock:close()
  return granted, why
end

return per_request
