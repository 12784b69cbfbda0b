-- Converts the terms that `load_campaign` and `update_terms` receive. Needs campaign.
--   fields, values: lists of the same length
-- Returns the terms by field, with all of them as one `text`, and the arguments of HSET as a flat list.
local function new_terms(version, type, fields, values)
  local terms, written = { version = version, type = type }, { 'version', version }
  for i, field in ipairs(fields) do
    terms[field] = values[i]
    table.insert(written, field)
    table.insert(written, values[i])
  end
  terms.text = terms_text(terms)
  table.insert(written, 'terms')
  table.insert(written, terms.text)
  return terms, written
end
