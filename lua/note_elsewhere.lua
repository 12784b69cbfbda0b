-- Notes what other regions have of a campaign that they sell as well. For as long as the note holds, `maintain_line`
-- keeps a line while another region has units, and closes that of a region whose units were all given away.
--
-- KEYS campaign, epoch
-- ARGV
--   what            units = another region has units that are free or may become so; none = no region has any
--   keep_ms:int     for how long the note holds, at most 60,000
-- REPLY
--   noted
--   not_found
--   rebuilding          Redis is empty and has not been filled yet
-- JOURNALS nothing: after a loss of Redis the next note comes within a second

--#include clock
--#include campaign

assert(what == 'units' or what == 'none', 'what must be units or none')
assert(keep_ms > 0 and keep_ms <= 60000, 'keep_ms must be from 1 to 60000')
if redis.call('EXISTS', campaign_key) == 0 then return no_campaign(epoch_key) end
redis.call('HSET', campaign_key, 'elsewhere', what .. '|' .. (now_ms() + keep_ms))
return { 'noted' }
