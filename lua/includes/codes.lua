-- Which of a campaign's coupon codes are used: one bit for each, bit n - 1 for code number n. Which text has which number
-- stands in Postgres and never changes.

local function code_is_used(codes_key, code)
  return redis.call('GETBIT', codes_key, tonumber(code) - 1) == 1
end

local function use_code(codes_key, code)
  redis.call('SETBIT', codes_key, tonumber(code) - 1, 1)
end

-- Makes it usable again, and the search for the next one start no later than there.
local function free_code(campaign_key, codes_key, c, code)
  if code == '' then return end
  redis.call('SETBIT', codes_key, tonumber(code) - 1, 0)
  local byte = math.floor((tonumber(code) - 1) / 8)
  if byte < c.code_hint then
    c.code_hint = byte
    redis.call('HSET', campaign_key, 'code_hint', byte)
  end
end

-- The lowest number that is not used, or nil. Everything before `code_hint` (a byte of the bitmap) is.
local function next_code(campaign_key, codes_key, c)
  local bit = redis.call('BITPOS', codes_key, 0, c.code_hint)
  -- Beyond the bits that were ever set Redis does not look.
  if bit < 0 then bit = redis.call('STRLEN', codes_key) * 8 end
  local byte = math.floor(bit / 8)
  if byte > c.code_hint then
    c.code_hint = byte
    redis.call('HSET', campaign_key, 'code_hint', byte)
  end
  return bit < c.codes and tostring(bit + 1) or nil
end
