-- Decides which requests pass: asks Tarantool for each one, by its session's cookie and its path.
--
-- Only granted requests pass. A refusal is a 403, and no answer from Tarantool is a 503. A Lua error here or in
-- a connector is NGINX's own 500.

local settings = require "bakeoff.settings"
local connector = require(settings.connector)

local servers = settings.servers
local turn = 0

local gateway = {}

-- Asks the servers in rotation whether a session may access a resource; nil and an error on failure.
local function ask(session, resource)
  turn = turn % #servers + 1
  return connector.check(session, resource, servers[turn])
end

function gateway.enter()
  local session = ngx.var.cookie_session
  if not session then return ngx.exit(ngx.HTTP_FORBIDDEN) end
  local granted, why = ask(session, ngx.var.uri)
  if granted == true then return end
  if granted == false then return ngx.exit(ngx.HTTP_FORBIDDEN) end
  ngx.log(ngx.ERR, "nobody said whether it may pass: ", tostring(why))
  return ngx.exit(ngx.HTTP_SERVICE_UNAVAILABLE)
end

-- Asks for a session that does not exist, to reveal faults of the connector.
function gateway.try()
  local granted, why = ask("nobody", "/")
  if granted == nil then
    ngx.status = ngx.HTTP_SERVICE_UNAVAILABLE
    ngx.print(tostring(why))
  end
end

return gateway
