local predict = "http://127.0.0.1:8765"  -- rmreplay predict serve; "" if there is none
local forecast = "http://127.0.0.1:8766" -- rmreplay forecast serve, or the path of its socket; "" if there is none

local function quoted(text)
  return "'" .. tostring(text):gsub("'", "'\\''") .. "'"
end

-- word is what describes a job's field to rmreplay predict hint.
local function word(name, value)
  return name .. "=" .. quoted(value)
end

-- answer returns the line about the job that words describe, or nil if no service answers in time.
local function answer(words)
  local pipe = io.popen("exec timeout -s KILL 0.18 " .. quoted(program) .. " predict hint --predict-server " ..
    quoted(predict) .. " --forecast-server " .. quoted(forecast) .. " " .. table.concat(words, " ") .. " </dev/null 2>/dev/null")
  if not pipe then
    return nil
  end
  local line = pipe:read("*l")
  pipe:close()
  return line ~= "" and line or nil
end
