-- The reservations and places in line that claim one order of a user, and whether another one may join. Each claim has
-- the `stacking` of its campaign: combines, exclusive (with no other claim) or group:<name> (with no claim of the same
-- group). Stored as one text for each order: `reservation_id=stacking`, comma-separated. A claim stays when its
-- reservation ends. A caller whom it excludes calls `check_order_claim`, which then marks it as `ended`. One of those
-- stays even on a full order, as it proves that the order has had another reservation.

-- A cart has a few codes. A longer list would make every later claim on the order slow.
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

-- Returns the ids of the reservations that exclude this one from the order; all ids when the order is full.
local function claims_against(claims, reservation_id, stacking)
  local found, live = {}, 0
  for _, claim in ipairs(claims) do
    if claim.stacking ~= 'ended' then live = live + 1 end
  end
  for _, claim in ipairs(claims) do
    local excludes = claim.stacking == 'exclusive' or stacking == 'exclusive' or
      (stacking ~= 'combines' and claim.stacking == stacking)
    if claim.stacking ~= 'ended' and claim.reservation_id ~= reservation_id and (excludes or live >= most_claims) then
      table.insert(found, claim.reservation_id)
    end
  end
  return found
end

-- Returns the stacking of the claim of this reservation, or nil.
local function claimed_stacking(claims, reservation_id)
  for _, claim in ipairs(claims) do
    if claim.reservation_id == reservation_id then return claim.stacking end
  end
  return nil
end

-- Returns the claims as text, without the claims of the reservation `without`.
local function packed_claims(claims, without)
  local texts = {}
  for _, claim in ipairs(claims) do
    if claim.reservation_id ~= without then table.insert(texts, claim.reservation_id .. '=' .. claim.stacking) end
  end
  return table.concat(texts, ',')
end

-- Returns the claims as text, in which this one has ended.
local function with_ended(claims, reservation_id)
  for _, claim in ipairs(claims) do
    if claim.reservation_id == reservation_id then claim.stacking = 'ended' end
  end
  return packed_claims(claims)
end

-- Returns the claims as text, with this claim at the end.
local function with_claim(claims, reservation_id, stacking)
  local kept, has_ended = {}, false
  for _, claim in ipairs(claims) do
    local is_ended = claim.stacking == 'ended'
    if not is_ended or not has_ended or #claims < most_claims then table.insert(kept, claim) end
    has_ended = has_ended or is_ended
  end
  local others = packed_claims(kept, reservation_id)
  return (others == '' and '' or others .. ',') .. reservation_id .. '=' .. stacking
end

-- Returns whether a reservation claims its order. An order named by the caller may have other codes. An order id made
-- by a script can be reused by its user too, but only codes exclude each other: then codes of a pool and campaigns
-- whose stacking excludes others claim it.
local function takes_part(c, order_is_made_here)
  return not order_is_made_here or c.type == 'pool' or c.stacking ~= 'combines'
end
