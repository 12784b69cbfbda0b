-- Draws line numbers for users of all buckets of a campaign. Only bucket 0 draws. Unused numbers do no harm. When
-- bucket 0 has been filled from Postgres, or a history begins, the last numbers may be lost. So the numbers go on from
-- the time, at a pace that no campaign reaches. Numbers that were drawn between two fillings may be lost as well, so
-- those of the second one must not depend on the known numbers alone.
--
-- KEYS campaign, epoch
-- ARGV
--   count:int     numbers to draw
-- REPLY
--   drawn last    the last one of them
--   not_found
--   rebuilding    Redis is empty and has not been filled yet
-- JOURNALS nothing: the entry of a place has its number

--#include clock
--#include generation
--#include campaign

-- Fewer are drawn in a ms. With it, numbers have 13 digits until 2055.
local per_ms = 100
local since_ms = 1700000000000
-- If the clock is behind the known numbers, they go on by more than are drawn between two commits, and by the time
-- within a window of 17 minutes, so that two fillings go on differently.
local gap, window_ms = 1000000, 1048576

local last = tonumber(redis.call('HGET', campaign_key, 'last_line_no'))
if not last then return no_campaign(epoch_key) end
local generation = generation_of(epoch_key)
if not generation then return { 'rebuilding' } end
local numbered_by = redis.call('HGET', campaign_key, 'numbered_by')
if numbered_by ~= generation then
  local now = now_ms()
  local by_time = (now - since_ms) * per_ms
  last = by_time > last and by_time or last + gap + now % window_ms * per_ms
end
last = last + count
local text = string.format('%.0f', last)
redis.call('HSET', campaign_key, 'last_line_no', text, 'numbered_by', generation)
return { 'drawn', text }
