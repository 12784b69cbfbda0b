-- Appends the events that the stream lacks, in their order: all of them or none.
--
-- KEYS events
-- ARGV
--   after         number of the event that the stream must end with; "" = any
--   length        approximate number of entries to keep
-- EACH (at most 200)
--   number        of the event; numbers ascend
--   id type subject
--   event         the CloudEvent as JSON
-- REPLY
--   appended count    how many were appended
--   elsewhere last    nothing was appended: the stream ends with the event `last`, 0 = it is empty
-- JOURNALS nothing

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
for i, number in ipairs(each_number) do
  if tonumber(number) > tonumber(last) then
    missing[#missing + 1] = { entry = number .. '-0', id = each_id[i], type = each_type[i], subject = each_subject[i],
      event = each_event[i] }
  end
end
local reply = { 'appended', tostring(#missing) }
for _, one in ipairs(missing) do
  redis.call('XADD', events_key, 'MAXLEN', '~', length, one.entry, 'id', one.id, 'type', one.type,
    'subject', one.subject, 'event', one.event)
end
return reply
