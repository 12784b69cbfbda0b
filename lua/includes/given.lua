-- The transfers that a bucket gave, in the field `gave` of its campaign: a JSON array of [number, bucket, units,
-- codes], oldest first; without codes the last value is missing. A Postgres that was set back gets them back from here
-- (commands/reconcile). The oldest of those that have arrived are dropped when there is no room, but the last one
-- to each bucket stays.

-- How many transfers are remembered, and about how many codes: a script packs them in less than a millisecond.
local max_given = 64
local max_given_codes = 10000

local function codes_in(transfer)
  if type(transfer[4]) ~= 'string' then return 0 end
  local _, commas = string.gsub(transfer[4], ',', '')
  return commas + 1
end

local function given_transfer(out_no, to, units, codes)
  local transfer = { out_no, tonumber(to), units }
  if codes[1] then transfer[4] = table.concat(codes, ',') end
  return transfer
end

-- Returns the transfers, with room for one more; nil when too many of them may be on their way.
--   arrived   number of a transfer: it and all before it have arrived
local function given_transfers(text, arrived)
  local given, last, codes, kept = cjson.decode(text or '[]'), {}, 0, {}
  for _, transfer in ipairs(given) do
    last[transfer[2]] = transfer[1]
    codes = codes + codes_in(transfer)
  end
  local count = #given
  for _, transfer in ipairs(given) do
    local has_room = count < max_given and codes <= max_given_codes
    if has_room or transfer[1] > arrived or last[transfer[2]] == transfer[1] then
      kept[#kept + 1] = transfer
    else
      count, codes = count - 1, codes - codes_in(transfer)
    end
  end
  if count >= max_given or codes > max_given_codes then return nil end
  return kept
end
