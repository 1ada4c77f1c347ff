-- Asks through a user's module, by its calling convention.
--
--   new    `module:new(options)` returns an object, as in lua-resty-tarantool and lua-nginx-tarantool
--   call   `module(options)` returns an object, as in tarantool-lua
--   check  the module does everything itself: `module.check(session, resource, server)` returns true, false, or
--          nil and an error
--
-- Each request creates an object, connects it, asks with `call`, and keeps the connection with
-- `set_keepalive`, as the modules' documentation shows.

local settings = require "bakeoff.settings"
local module = require(settings.module)

local function is_callable(value)
  local meta = getmetatable(value)
  return type(value) == "function" or type(meta) == "table" and meta.__call ~= nil
end

local function convention_of(value)
  if type(value) == "table" and type(rawget(value, "check")) == "function" then return "check" end
  if type(value) == "table" and type(rawget(value, "new")) == "function" then return "new" end
  if is_callable(value) then return "call" end
  error("module `" .. settings.module .. "` has no known calling convention: no `check`, "
    .. "no `new`, and it is not callable", 0)
end

local convention = settings.convention or convention_of(module)

if convention == "check" then return module end

local function made(server)
  -- Only modules that would connect at once know `connect_now`; all know `user` and `password`.
  local options = {
    host = server.host,
    port = server.port,
    user = server.user,
    password = server.password,
    socket_timeout = server.timeout,
    connect_now = false,
  }
  if convention == "new" then return module:new(options) end
  return module(options)
end

local foreign = {}

function foreign.check(session, resource, server)
  local object, why = made(server)
  if not object then return nil, why or "no object" end
  local fine
  fine, why = object:connect()
  if not fine then return nil, why or "no connection" end
  local answer
  answer, why = object:call("check_access", { session, resource })
  -- Depending on the module's age, the result comes as it is, in a list, or in a list of lists.
  for _ = 1, 2 do
    if type(answer) == "table" then answer = answer[1] end
  end
  if type(answer) ~= "boolean" then
    object:disconnect()
    return nil, why or ("an answer that is neither yes nor no: " .. tostring(answer))
  end
  object:set_keepalive()
  return answer
end

return foreign
