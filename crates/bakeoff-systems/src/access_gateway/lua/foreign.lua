-- Asks through somebody else's module, by the convention that it follows.
--
--   new    an object is had by `module:new(options)`, as of lua-resty-tarantool and lua-nginx-tarantool
--   call   an object is had by `module(options)`, as of tarantool-lua
--   check  the module does all itself: `module.check(session, resource, server)` returns true, false, or nil
--          and what is wrong
--
-- An object is connected, asked with `call`, and kept with `set_keepalive`, a new one for each request, as
-- their documentation has it.

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
  error("module `" .. settings.module .. "` returns nothing that can be asked: it has no `check`, "
    .. "no `new`, and cannot be called", 0)
end

local convention = settings.convention or convention_of(module)

if convention == "check" then return module end

local function made(server)
  -- `connect_now` is known to those that would connect at once; `user` and `password` to all.
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
  -- What was returned comes as it is, in a list, or in a list of lists, by the module's age.
  for _ = 1, 2 do
    if type(answer) == "table" then answer = answer[1] end
  end
  if type(answer) ~= "boolean" then
    object:disconnect()
    return nil, why or ("an answer that is no yes and no no: " .. tostring(answer))
  end
  object:set_keepalive()
  return answer
end

return foreign
