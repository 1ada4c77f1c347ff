-- Starts each Lua state: defines the table `wrk` for scripts, and how bakeoff calls their functions.
--
-- bakeoff passes in functions that only it can implement: address lookup, connecting, the URL's parts,
-- the headers of the command line, a stack traceback and information on a function. It gets back
-- functions that look up the script's functions at each call, because scripts replace them at run
-- time. The lookup is here because LuaJIT compiles it, so it costs nothing.

local native = ...
local new_buffer = require("string.buffer").new

wrk = {
  scheme = native.scheme,
  host = native.host,
  port = native.port,
  path = native.path,
  method = "GET",
  headers = native.headers,
}
package.loaded.wrk = wrk

-- Search modules next to the script after those below the working directory.
if native.adjacent then
  local adjacent = native.adjacent
  package.path = package.path .. ";" .. adjacent .. "/?.lua;" .. adjacent .. "/?/init.lua"
end

debug = { traceback = native.traceback, getinfo = native.getinfo }

function wrk.lookup(host, service)
  local addresses, problem = native.lookup(host, service)
  return addresses or error(problem, 2)
end

wrk.connect = native.connect

-- Keeps a host's addresses that accept a connection.
function wrk.resolve(host, service)
  local reachable = {}
  for _, address in ipairs(wrk.lookup(host, service)) do
    if wrk.connect(address) then reachable[#reachable + 1] = address end
  end
  wrk.addrs = reachable
end

function wrk.setup(thread)
  thread.addr = wrk.addrs[1]
  if type(setup) == "function" then setup(thread) end
end

function wrk.init(args)
  if not wrk.headers.Host then
    local host = wrk.host
    if host:find(":", 1, true) then host = "[" .. host .. "]" end
    wrk.headers.Host = wrk.port and host .. ":" .. wrk.port or host
  end
  if type(init) == "function" then init(args) end
  local unchanging = wrk.format()
  wrk.request = function() return unchanging end
end

-- Converts a header value to text. Strings and numbers stay as they are.
local function text(value)
  local kind = type(value)
  return (kind == "string" or kind == "number") and value or tostring(value)
end

-- Returns a request's bytes. As in wrk, the table of headers is completed in place. All requests share
-- one buffer, so that only the result is allocated.
local bytes = new_buffer()
function wrk.format(method, path, headers, body)
  headers = headers or wrk.headers
  body = body or wrk.body
  if not headers.Host then headers.Host = wrk.headers.Host end
  headers["Content-Length"] = body and string.len(body)
  bytes:reset()
  bytes:put(text(method or wrk.method), " ", text(path or wrk.path), " HTTP/1.1\r\n")
  for name, value in pairs(headers) do
    bytes:put(text(name), ": ", text(value), "\r\n")
  end
  bytes:put("\r\n", body or "")
  return bytes:tostring()
end

local known_response
local known_headers
local about = require("jit.util").funcinfo

return {
  request = function()
    local make = request
    if type(make) ~= "function" then make = wrk.request end
    return make()
  end,
  -- Returns true if the script has replaced or removed `response` since the last call. It was then not
  -- called: bakeoff checks its parameters and calls again.
  response = function(status, headers, body)
    local take = response
    if take ~= known_response then
      known_response = take
      return true
    end
    if take then
      if headers == true then headers = known_headers() end
      take(status, headers, body)
    end
  end,
  -- Stores repeated headers as code that creates a new table of them, because LuaJIT copies such a
  -- table at once. From then on `true` stands for them.
  learn = function(headers)
    local entries = {}
    for name, value in pairs(headers) do
      entries[#entries + 1] = ("[%q]=%q"):format(name, value)
    end
    known_headers = loadstring("return {" .. table.concat(entries, ",") .. "}", "=wrk")
  end,
  -- Returns the number of parameters of `response`: later ones need not be built. Functions in C do not
  -- reveal it, and those with `...` may use all.
  parameters = function()
    if type(response) ~= "function" then return 0 end
    local found = about(response)
    return found.isvararg and 3 or found.params or 3
  end,
  delay = function() return delay() end,
}
