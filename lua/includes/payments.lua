-- References of the payments of a reservation, the first one first, as the JSON of an array; nothing is kept without one.

-- A payment service that repeats itself has one or two; more are kept by Postgres alone.
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

-- The references with one more, as they are kept.
local function with_payment(references, reference)
  if #references < most_references then table.insert(references, reference) end
  return cjson.encode(references)
end
