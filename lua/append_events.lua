-- Appends events to the stream, in their order, as far as the stream does not have them yet: all of them or none.
--
-- KEYS events
-- ARGV
--   after         number of the event that the stream has to end with; "" = any
--   length        about so many entries are kept
--   word...       five for each of at most 200 events: its number, its id, its type, its subject, and the CloudEvent as JSON; numbers ascend
-- REPLY
--   appended count    how many were appended
--   elsewhere last    nothing was appended: the stream ends with the event `last`, 0 = it is empty
-- JOURNALS nothing

assert(#KEYS == 1 and #ARGV <= 1002, 'append_events takes 1 key and at most 1002 arguments')
local events_key = KEYS[1]
local after, length = ARGV[1], ARGV[2]

local last = '0'
if redis.call('EXISTS', events_key) == 1 then
  local about = 'STREAM'
  local info = redis.call('XINFO', about, events_key)
  for i = 1, #info, 2 do
    if info[i] == 'last-generated-id' then last = string.match(info[i + 1], '^%d+') end
  end
end
if after ~= '' and after ~= last then return { 'elsewhere', last } end

local missing = {}
for i = 3, #ARGV, 5 do
  if tonumber(ARGV[i]) > tonumber(last) then
    missing[#missing + 1] = { entry = ARGV[i] .. '-0', id = ARGV[i + 1], type = ARGV[i + 2], subject = ARGV[i + 3],
      event = ARGV[i + 4] }
  end
end
local reply = { 'appended', tostring(#missing) }
for _, one in ipairs(missing) do
  redis.call('XADD', events_key, 'MAXLEN', '~', length, one.entry, 'id', one.id, 'type', one.type,
    'subject', one.subject, 'event', one.event)
end
return reply
