-- Keeps the number of shards and the version of the map of campaigns, so that a Postgres that was set back is noticed.
-- A lower version changes nothing. It may be called while Redis is out of service.
--
-- KEYS installation
-- ARGV
--   shards        their number
--   version:int   of the map
-- REPLY
--   kept
-- JOURNALS nothing

local known = redis.call('GET', installation_key)
local known_version = known and tonumber(string.match(known, '|(%d+)$')) or -1
if version > known_version then redis.call('SET', installation_key, shards .. '|' .. string.format('%.0f', version)) end
return { 'kept' }
