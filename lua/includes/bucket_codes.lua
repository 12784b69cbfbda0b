-- The codes of a bucket of a pool (docs/buckets.md). A code has one bucket that may give it. At first this is its home:
-- code number n is at home in bucket (n - 1) mod buckets. Transfers give it another one. In the bitmap of a bucket the
-- bit of a code is set when the code is used or another bucket may give it. Field `own_codes` of the campaign counts
-- the codes of the bucket, used ones included.

-- Bytes of the bitmap that one command counts, and number of unused codes after which counting ends: no round and no
-- fetch moves more.
local counted_bytes, most_counted = 16384, 2000

-- Returns the bucket in the number of a campaign: bits 23 to 26.
local function bucket_of(no)
  return math.floor(no / 2 ^ 23) % 16
end

-- Returns how many of the codes 1 to `codes` are at home in the bucket.
local function home_codes(codes, bucket, buckets)
  return math.floor((codes - bucket + buckets - 1) / buckets)
end

-- Returns what marks the codes from + 1 to `to` as codes of their homes: bits to be set, and whole bytes with their
-- offset. A pattern of bytes, because a campaign may have millions of codes.
local function foreign_codes(from, to, bucket, buckets)
  local first, last, bits = math.ceil(from / 8), math.floor(to / 8), {}
  local function is_foreign(bit) return bit % buckets ~= bucket end
  for bit = from, math.min(first * 8, to) - 1 do
    if is_foreign(bit) then bits[#bits + 1] = bit end
  end
  for bit = math.max(first, last) * 8, to - 1 do
    if is_foreign(bit) then bits[#bits + 1] = bit end
  end
  local bytes = last - first
  if bytes <= 0 then return bits, 0, '' end
  local period = {}
  for at = first, first + math.min(buckets, bytes) - 1 do
    local byte = 0
    for bit = at * 8, at * 8 + 7 do byte = byte * 2 + (is_foreign(bit) and 1 or 0) end
    period[#period + 1] = string.char(byte)
  end
  return bits, first, string.sub(string.rep(table.concat(period), math.ceil(bytes / #period)), 1, bytes)
end

-- Returns the number of unused codes of the bucket, counted up to a little more than `most_counted`.
local function unused_codes(codes_key, c)
  local at, unused = c.code_hint, 0
  while at * 8 < c.codes and unused < most_counted do
    local bits = math.min((at + counted_bytes) * 8, c.codes) - at * 8
    unused = unused + bits - redis.call('BITCOUNT', codes_key, at, at + counted_bytes - 1)
    at = at + counted_bytes
  end
  return math.max(0, unused)
end

-- Returns the `count` lowest unused codes, or fewer. Sets `c.code_from` as `next_code` does.
local function lowest_codes(codes_key, c, count)
  local found, bit = {}, c.code_hint * 8 - 1
  while #found < count do
    local from = bit + 1
    bit = redis.call('BITPOS', codes_key, 0, from, -1, 'BIT')
    if bit < 0 then bit = redis.call('STRLEN', codes_key) * 8 end
    bit = math.max(bit, from)
    if bit >= c.codes then break end
    found[#found + 1] = bit + 1
    c.code_from = bit
  end
  return found
end
