-- The references of the payments of a reservation as a JSON array, the first one first. Payments without one are not
-- stored.

-- Redis keeps no more; Postgres has all. A payment service that retries sends one or two.
local most_references = 20

local function payments_of(text)
  return cjson.decode(text or '[]')
end

local function is_known_payment(references, reference)
  for _, known in ipairs(references) do
    if known == reference then return true end
  end
  return false
end

-- Returns the references with one more, as stored.
local function with_payment(references, reference)
  if #references < most_references then table.insert(references, reference) end
  return cjson.encode(references)
end
