-- Makes the world a script sees. Every script gets its own copy of every table, so that no script can change what
-- another one finds; the functions in them are shared and cannot be changed.
local native, modules = ...

local error, next, pcall, select, tostring, type, unpack, xpcall = error, next, pcall, select, tostring, type, unpack, xpcall
local concat, maxn, sort = table.concat, table.maxn, table.sort
local floor = math.floor
local tick = native.tick

local function copy(from)
  local to = {}
  for key, value in next, from do
    to[key] = value
  end
  return to
end

-- Functions of ours say first whether they worked.
local function given(worked, ...)
  if worked then
    return ...
  end
  error((...), 3)
end

local function raising(from)
  local to = {}
  for name, call in next, from do
    to[name] = function(...)
      return given(call(...))
    end
  end
  return to
end

local function packed(...)
  return {size = select("#", ...), ...}
end

local function call_packed(call, ...)
  return packed(call(...))
end

-- A script that ran out of time must not go on by catching that. Results come in a table: the protected calls of C
-- have room for a few only.
local function caught(worked, result)
  if worked then
    return true, unpack(result, 1, result.size)
  end
  tick()
  return false, result
end

local strings = raising(native.strings)
local number_text = strings.number
strings.number = nil
strings.gfind = strings.gmatch
for _, name in next, {"dump", "gsub", "rep"} do
  strings[name] = function()
    error("The Lua function string." .. name .. " is not supported by Karmada. If you believe this function is essential for your use case, please submit an issue to let us know why you need it.", 2)
  end
end
native.set_string_methods({__index = strings})

-- Loops over a table are written in Lua, where they are counted; what is a loop in C looks at the clock first.
local tables = {
  getn = table.getn,
  concat = function(...)
    tick()
    return concat(...)
  end,
  maxn = function(...)
    tick()
    return maxn(...)
  end,
  sort = function(...)
    tick()
    return sort(...)
  end,
  insert = function(list, ...)
    if type(list) ~= "table" then
      error("bad argument #1 to insert (table expected, got " .. type(list) .. ")", 2)
    end
    local count = select("#", ...)
    local size = #list
    if count == 1 then
      list[size + 1] = (...)
    elseif count == 2 then
      local at, value = ...
      if type(at) ~= "number" then
        error("bad argument #2 to insert (number expected, got " .. type(at) .. ")", 2)
      end
      for index = size, at, -1 do
        list[index + 1] = list[index]
      end
      list[at] = value
    else
      error("wrong number of arguments to insert", 2)
    end
  end,
  remove = function(list, at)
    if type(list) ~= "table" then
      error("bad argument #1 to remove (table expected, got " .. type(list) .. ")", 2)
    end
    local size = #list
    at = at or size
    if at < 1 or at > size then
      return
    end
    local value = list[at]
    for index = at, size - 1 do
      list[index] = list[index + 1]
    end
    list[size] = nil
    return value
  end,
}

local base = {
  _VERSION = "Lua 5.1",
  assert = assert,
  error = error,
  ipairs = ipairs,
  next = next,
  pairs = pairs,
  print = native.print,
  select = select,
  tonumber = tonumber,
  type = type,
  unpack = unpack,
  pcall = function(call, ...)
    tick()
    if call == error then
      return false, (...)
    end
    return caught(pcall(call_packed, call, ...))
  end,
  xpcall = function(call, handler)
    tick()
    return caught(xpcall(function()
      return packed(call())
    end, function(problem)
      tick()
      return handler(problem)
    end))
  end,
  tostring = function(value)
    if type(value) == "number" and (value ~= floor(value) or value >= 1e14 or value <= -1e14) then
      return number_text(value)
    end
    return tostring(value)
  end,
}
for _, name in next, {
  "collectgarbage", "dofile", "getfenv", "getmetatable", "load", "loadfile", "loadstring", "rawequal", "rawget",
  "rawset", "setfenv", "setmetatable", "module", "newproxy",
} do
  base[name] = function()
    error("call function " .. name .. " is not supported in karmada customized resourceinterpreter.")
  end
end

local maths = copy(math)
local os = native.os
local kube = raising(native.kube)

local bundled = {}

local function fresh()
  local env = copy(base)
  env._G = env
  env.string, env.table, env.math, env.os = copy(strings), copy(tables), copy(maths), copy(os)
  local loaded = {_G = env, string = env.string, table = env.table, math = env.math, os = env.os}
  local preload = {
    kube = function()
      return copy(kube)
    end,
  }
  for name, contents in next, bundled do
    preload[name] = function()
      return copy(contents)
    end
  end
  local package = {
    loaded = loaded,
    preload = preload,
    loadlib = function()
      error("loadlib is not supported", 2)
    end,
  }
  package.loaders = {
    function(name)
      local found = package.preload[name]
      if found == nil then
        return "no field package.preload['" .. tostring(name) .. "']"
      end
      return found
    end,
  }
  loaded.package = package
  env.package = package
  env.require = function(name)
    local found = loaded[name]
    if found ~= nil then
      return found
    end
    local why = ""
    for index = 1, #package.loaders do
      local loader = package.loaders[index](name)
      if type(loader) == "function" then
        local result = loader(name)
        if result ~= nil then
          loaded[name] = result
        elseif loaded[name] == nil then
          loaded[name] = true
        end
        return loaded[name]
      elseif type(loader) == "string" then
        why = why .. "\n\t" .. loader
      end
    end
    error("module " .. tostring(name) .. " not found:" .. why, 2)
  end
  return env
end

for name, load in next, modules do
  bundled[name] = native.with_environment(load, fresh())()
end

return fresh
