-- Which reservations and places in line take part in one order of a user, and whether another one may join them. Each has
-- claimed the order with its campaign's `stacking`: combines, exclusive (with nothing else) or group:<name> (with nothing of
-- the same group). Kept as one text for each order: `reservation_id=stacking`, comma-separated.
-- A claim stays when its reservation ends: whoever meets it asks `check_order_claim`, which removes it then.

-- A cart has a few codes; a longer list would cost every later claim on the order its length.
local most_claims = 100

local function claims_in(text)
  local claims = {}
  for reservation_id, stacking in string.gmatch(text or '', '([^=,]+)=([^,]+)') do
    table.insert(claims, { reservation_id = reservation_id, stacking = stacking })
  end
  return claims
end

local function claims_on(order_key)
  return claims_in(redis.call('GET', order_key))
end

-- Ids of the reservations that keep this one off the order; of all of them when the order is full.
local function claims_against(claims, reservation_id, stacking)
  local found = {}
  for _, claim in ipairs(claims) do
    local excludes = claim.stacking == 'exclusive' or stacking == 'exclusive' or
      (stacking ~= 'combines' and claim.stacking == stacking)
    if claim.reservation_id ~= reservation_id and (excludes or #claims >= most_claims) then
      table.insert(found, claim.reservation_id)
    end
  end
  return found
end

-- The stacking that this reservation has claimed the order with, or nil.
local function claimed_stacking(claims, reservation_id)
  for _, claim in ipairs(claims) do
    if claim.reservation_id == reservation_id then return claim.stacking end
  end
  return nil
end

-- The text of these claims, without those of this reservation.
local function packed_claims(claims, without)
  local texts = {}
  for _, claim in ipairs(claims) do
    if claim.reservation_id ~= without then table.insert(texts, claim.reservation_id .. '=' .. claim.stacking) end
  end
  return table.concat(texts, ',')
end

-- The same with this claim at the end.
local function with_claim(claims, reservation_id, stacking)
  local others = packed_claims(claims, reservation_id)
  return (others == '' and '' or others .. ',') .. reservation_id .. '=' .. stacking
end

-- Whether a reservation takes part in its order: one that the caller named may have other codes on it. An order that was made
-- here is known to its user too, but only codes exclude each other: it counts for a code of a pool, and where the campaign
-- excludes others.
local function takes_part(c, order_is_made_here)
  return not order_is_made_here or c.type == 'pool' or c.stacking ~= 'combines'
end
