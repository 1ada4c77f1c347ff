-- Reports whether the gateway's connector loads and works (else 500) and gets an answer (else 503), with the error.

local function wrong(what, why)
  local text = what .. ": " .. tostring(why)
  ngx.log(ngx.ERR, text)
  ngx.status = ngx.HTTP_INTERNAL_SERVER_ERROR
  ngx.print(text)
end

local fine, gateway = pcall(require, "bakeoff.gateway")
if not fine then return wrong("does not load", gateway) end
local tried, why = pcall(gateway.try)
if not tried then return wrong("does not work", why) end
