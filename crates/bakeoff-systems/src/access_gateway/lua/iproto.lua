-- Implements IPROTO, Tarantool's protocol, over a cosocket: connection, greeting, chap-sha1, and calls of stored
-- functions, one after the other.
--
-- Not here: when to wait for a greeting and what becomes of a connection, in which connectors differ.

local bit = require "bit"
local messagepack = require "bakeoff.messagepack"

local map, array = messagepack.map, messagepack.array
local str, uint = messagepack.str, messagepack.uint

-- Tarantool's codes of requests, of header keys and of body keys.
local AUTH, CALL = 0x07, 0x0a
local TYPE, SYNC = 0x00, 0x01
local TUPLE, FUNCTION_NAME, USER_NAME, DATA, ERROR = 0x21, 0x22, 0x23, 0x30, 0x31

local GREETING_SIZE, SALT_AT, SALT_BASE64, SALT_SIZE = 128, 65, 44, 20
-- Each message follows its size, which Tarantool always encodes in five bytes.
local SIZE_SIZE, MESSAGE_MAX = 5, 1024 * 1024

local iproto = {}

local sync = 0

-- Returns a cosocket connected to a server, from NGINX's pool if possible; nil and an error on failure.
function iproto.connected(server)
  local sock = ngx.socket.tcp()
  sock:settimeout(server.timeout)
  local fine, why = sock:connect(server.host, server.port)
  if not fine then return nil, "no connection: " .. why end
  return sock
end

-- Sends a request and returns the body of its answer; nil and an error on failure.
local function exchange(sock, kind, body)
  sync = (sync + 1) % 0x100000000
  local header = map(2) .. uint(TYPE) .. uint(kind) .. uint(SYNC) .. uint(sync)
  local expected = sync
  local sent, why = sock:send(uint(#header + #body) .. header .. body)
  if not sent then return nil, "a request could not be sent: " .. why end
  local prefix
  prefix, why = sock:receive(SIZE_SIZE)
  if not prefix then return nil, "no answer: " .. why end
  local size = messagepack.decode(prefix)
  if type(size) ~= "number" or size < 1 or size > MESSAGE_MAX then
    return nil, "an answer without a size"
  end
  local message
  message, why = sock:receive(size)
  if not message then return nil, "half an answer: " .. why end
  local head, at = messagepack.decode(message)
  if type(head) ~= "table" then
    return nil, "an answer without a header: " .. tostring(head == nil and at or head)
  end
  if head[SYNC] ~= expected then return nil, "the answer to another request" end
  local answer = {}
  if at <= #message then
    answer, why = messagepack.decode(message, at)
    if type(answer) ~= "table" then return nil, "an answer with a broken body" end
  end
  if head[TYPE] ~= 0 then
    return nil, "Tarantool refused: " .. tostring(answer[ERROR] or head[TYPE])
  end
  return answer
end

-- Waits for the greeting of a new connection and logs in.
function iproto.greet(sock, user, password)
  local greeting, why = sock:receive(GREETING_SIZE)
  if not greeting then return nil, "no greeting: " .. why end
  if greeting:sub(1, 10) ~= "Tarantool " then return nil, "a greeting that is not Tarantool's" end
  if not user then return true end
  local salt = ngx.decode_base64(greeting:sub(SALT_AT, SALT_AT + SALT_BASE64 - 1))
  if not salt or #salt < SALT_SIZE then return nil, "a greeting without a salt" end
  local first = ngx.sha1_bin(password)
  local last = ngx.sha1_bin(salt:sub(1, SALT_SIZE) .. ngx.sha1_bin(first))
  local scramble = {}
  for place = 1, #first do
    scramble[place] = string.char(bit.bxor(first:byte(place), last:byte(place)))
  end
  local body = map(2) .. uint(USER_NAME) .. str(user)
    .. uint(TUPLE) .. array(2) .. str("chap-sha1") .. str(table.concat(scramble))
  local answer
  answer, why = exchange(sock, AUTH, body)
  if not answer then return nil, why end
  return true
end

-- Calls a stored function with texts and returns its first result; nil and an error on failure.
function iproto.call(sock, name, ...)
  local count = select("#", ...)
  local arguments = array(count)
  for place = 1, count do
    arguments = arguments .. str((select(place, ...)))
  end
  local body = map(2) .. uint(FUNCTION_NAME) .. str(name) .. uint(TUPLE) .. arguments
  local answer, why = exchange(sock, CALL, body)
  if not answer then return nil, why end
  local returned = answer[DATA]
  if type(returned) ~= "table" or returned[1] == nil then return nil, "nothing was returned" end
  return returned[1]
end

-- Asks a server that has greeted whether a session may access a resource; nil and an error on failure.
function iproto.check(sock, session, resource)
  return iproto.call(sock, "check_access", session, resource)
end

-- Waits for the greeting first, then asks.
function iproto.greet_and_check(sock, server, session, resource)
  local fine, why = iproto.greet(sock, server.user, server.password)
  if not fine then return nil, why end
  return iproto.check(sock, session, resource)
end

return iproto
