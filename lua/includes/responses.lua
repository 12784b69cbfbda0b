-- The idempotency records of a key, one a line. Usually there is one. A key that was used in two shards has a record of
-- each campaign, after one campaign has moved to the shard of the other.
--   own   how the records of a campaign begin

-- Returns the record of the campaign; another one if the campaign has none.
local function own_record(records, own)
  if not string.find(records, '\n', 1, true) then return records end
  for record in string.gmatch(records, '[^\n]+') do
    if string.sub(record, 1, #own) == own then return record end
  end
  return string.match(records, '[^\n]+')
end

-- Returns the records of other campaigns; "" = none.
local function other_records(records, own)
  local others = {}
  for record in string.gmatch(records, '[^\n]+') do
    if string.sub(record, 1, #own) ~= own then table.insert(others, record) end
  end
  return table.concat(others, '\n')
end
