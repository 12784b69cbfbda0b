-- Takes a token out of the bucket of a caller, or gives one back. In any t seconds a caller gets at most the tokens of
-- a full bucket and those that t seconds refill (generic cell rate algorithm). The bucket is the time at which it is
-- full again, in microseconds; a full bucket has no key.
--
-- KEYS bucket
-- ARGV
--   capacity:int      tokens of a full bucket
--   interval_us:int   time in which one token is refilled
--   gives_back:flag   gives the token of an earlier call back
-- REPLY
--   taken left full_ms      left: tokens in the bucket; full_ms: time until it is full; also when one was given back
--   empty wait_ms           time until there is a token
-- JOURNALS nothing

--#include clock

local now, room = now_ms() * 1000, capacity * interval_us
local known = tonumber(redis.call('GET', bucket_key) or 0)
local most = now + room
-- Never further away than an empty bucket needs: the clock may have gone back.
local full_at = math.min(math.max(known, now), most)
if gives_back then full_at = math.max(full_at - interval_us, now) else full_at = full_at + interval_us end
local is_empty = full_at > most
local reply = is_empty and { 'empty', string.format('%d', math.ceil((full_at - most) / 1000)) } or
  { 'taken', tostring(math.floor((most - full_at) / interval_us)), string.format('%d', math.ceil((full_at - now) / 1000)) }
if is_empty then full_at = most end
local text, left_ms = string.format('%d', full_at), math.ceil((full_at - now) / 1000)
local is_full, is_same = left_ms <= 0, is_empty and known <= most

if is_full then redis.call('DEL', bucket_key)
elseif not is_same then redis.call('SET', bucket_key, text, 'PX', left_ms) end
return reply
