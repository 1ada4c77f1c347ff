-- Reports whether the gate's connector loads and works (else 500) and gets an answer (else 503), with the error.

local function wrong(what, why)
  local text = what .. ": " .. tostring(why)
  ngx.log(ngx.ERR, text)
  ngx.status = ngx.HTTP_INTERNAL_SERVER_ERROR
  ngx.print(text)
end

local fine, gate = pcall(require, "bakeoff.gate")
if not fine then return wrong("does not load", gate) end
local tried, why = pcall(gate.try)
if not tried then return wrong("does not work", why) end
