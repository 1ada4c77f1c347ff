-- Asks through an `upstream` block of NGINX, with Tarantool's own module: a subrequest to an internal location.
--
-- The module answers 200 for a grant and for a refusal, so only the body decides.

-- The gateway's own location; `mod.rs` writes it.
local LOCATION = "/bakeoff/check-access"

local ESCAPES = { ['"'] = '\\"', ["\\"] = "\\\\" }

local function quoted(text)
  text = text:gsub('["\\%c]', function(char)
    return ESCAPES[char] or string.format("\\u%04x", char:byte())
  end)
  return '"' .. text .. '"'
end

local upstream = {}

function upstream.check(session, resource)
  local answer = ngx.location.capture(LOCATION, {
    method = ngx.HTTP_POST,
    body = '{"method":"check_access","params":[' .. quoted(session) .. "," .. quoted(resource) .. '],"id":0}',
  })
  if answer.status ~= ngx.HTTP_OK then return nil, "status " .. answer.status end
  -- Anchored: an error message may contain anything.
  local word = answer.body:match('^{"id":0,"result":%[+(%a+)%]+}')
  if word == "true" then return true end
  if word == "false" then return false end
  return nil, answer.body
end

return upstream
