-- The places of many people at once, for the sockets of one process. Reads only; the caller bounds the number of users.
--
-- KEYS campaign, line
-- ARGV
--   user...       at most 1000
-- REPLY
--   positions waiting position...    one for each user in their order, 0 = not in the line
--   not_found
-- JOURNALS nothing

assert(#KEYS == 2 and #ARGV <= 1000, 'positions takes 2 keys and at most 1000 users')
local campaign_key, line_key = KEYS[1], KEYS[2]

local waiting = redis.call('HGET', campaign_key, 'waiting')
if not waiting then return { 'not_found' } end
local reply = { 'positions', waiting }
for i, user in ipairs(ARGV) do
  local rank = redis.call('ZRANK', line_key, user)
  reply[i + 2] = rank and tostring(rank + 1) or '0'
end
return reply
