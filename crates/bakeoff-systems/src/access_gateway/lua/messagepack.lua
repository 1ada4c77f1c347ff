-- Implements the parts of MessagePack that IPROTO needs: writes unsigned numbers, texts and headers, and
-- reads anything. Skips the contents of floats and extensions, which a gateway does not use.

-- Interpreted, not compiled: with LuaJIT 2.1 of March 2022 this reader was seen, in about one process of fifty, to take
-- one sound answer in forty for none from then on. What it costs is some microseconds of each request.
if jit then jit.off(true, true) end

local byte, char, sub = string.byte, string.char, string.sub

local messagepack = {
  -- Stands for nil in an array, where Lua's own nil would end it.
  null = setmetatable({}, { __tostring = function() return "null" end }),
}

local function be16(number)
  return char(math.floor(number / 0x100) % 0x100, number % 0x100)
end

local function be32(number)
  return be16(math.floor(number / 0x10000)) .. be16(number % 0x10000)
end

-- An unsigned number below 2^32.
function messagepack.uint(number)
  if number < 0x80 then return char(number) end
  return "\206" .. be32(number)
end

function messagepack.str(text)
  local size = #text
  if size < 32 then return char(0xa0 + size) .. text end
  if size < 0x100 then return "\217" .. char(size) .. text end
  if size < 0x10000 then return "\218" .. be16(size) .. text end
  return "\219" .. be32(size) .. text
end

-- The header of an array of at most 15.
function messagepack.array(count)
  return char(0x90 + count)
end

-- The header of a map of at most 15 pairs.
function messagepack.map(count)
  return char(0x80 + count)
end

-- The unsigned number of `size` bytes at a place.
local function number_at(text, at, size)
  if at + size - 1 > #text then error("a value is cut off", 0) end
  local number = 0
  for place = at, at + size - 1 do
    number = number * 0x100 + byte(text, place)
  end
  return number
end

local function text_at(text, at, size)
  if at + size - 1 > #text then error("a text is cut off", 0) end
  return sub(text, at, at + size - 1), at + size
end

local value_at

local function array_at(text, at, count, depth)
  local array = {}
  for place = 1, count do
    array[place], at = value_at(text, at, depth)
  end
  return array, at
end

local function map_at(text, at, count, depth)
  local map = {}
  for _ = 1, count do
    local key, value
    key, at = value_at(text, at, depth)
    value, at = value_at(text, at, depth)
    map[key] = value
  end
  return map, at
end

-- Number of bytes after the first one, for numbers and skipped types.
local FIXED = {
  [0xca] = 4, [0xcb] = 8,
  [0xcc] = 1, [0xcd] = 2, [0xce] = 4, [0xcf] = 8,
  [0xd0] = 1, [0xd1] = 2, [0xd2] = 4, [0xd3] = 8,
  [0xd4] = 2, [0xd5] = 3, [0xd6] = 5, [0xd7] = 9, [0xd8] = 17,
}
-- Number of length bytes after the first one, and the type with that length.
local SIZED = {
  [0xc4] = { 1, text_at }, [0xc5] = { 2, text_at }, [0xc6] = { 4, text_at },
  [0xd9] = { 1, text_at }, [0xda] = { 2, text_at }, [0xdb] = { 4, text_at },
  [0xdc] = { 2, array_at }, [0xdd] = { 4, array_at },
  [0xde] = { 2, map_at }, [0xdf] = { 4, map_at },
}

-- Returns a value, and the position after it. Raises an error on invalid MessagePack.
function value_at(text, at, depth)
  if depth > 16 then error("values are nested too deeply", 0) end
  local first = byte(text, at)
  if not first then error("a value is missing", 0) end
  at = at + 1
  if first < 0x80 then return first, at end
  if first >= 0xe0 then return first - 0x100, at end
  if first < 0x90 then return map_at(text, at, first - 0x80, depth + 1) end
  if first < 0xa0 then return array_at(text, at, first - 0x90, depth + 1) end
  if first < 0xc0 then return text_at(text, at, first - 0xa0) end
  if first == 0xc0 then return messagepack.null, at end
  if first == 0xc2 then return false, at end
  if first == 0xc3 then return true, at end
  local size = FIXED[first]
  if size then
    local number = number_at(text, at, size)
    if first < 0xcc or first > 0xd3 then return messagepack.null, at + size end
    -- Signed numbers are in two's complement.
    if first >= 0xd0 and number >= 2 ^ (8 * size - 1) then number = number - 2 ^ (8 * size) end
    return number, at + size
  end
  local sized = SIZED[first]
  if sized then
    local length = number_at(text, at, sized[1])
    return sized[2](text, at + sized[1], length, depth + 1)
  end
  if first >= 0xc7 and first <= 0xc9 then
    local width = 2 ^ (first - 0xc7)
    local _, after = text_at(text, at + width, number_at(text, at, width) + 1)
    return messagepack.null, after
  end
  error("a value has an unknown type", 0)
end

-- Returns the value at a position of a text, and the position after it; nil and an error on failure.
function messagepack.decode(text, at)
  local fine, value, after = pcall(value_at, text, at or 1, 0)
  if fine then return value, after end
  return nil, value
end

return messagepack
