-- Publishing of messages to the processes that hold the sockets of a campaign.

-- Returns whether the channel is sharded: where keys have a tag (shared/redis/channels.ts).
local function is_sharded_channel(news_key)
  return string.sub(news_key, 1, 1) == '{'
end

local function publish_news(news_key, is_sharded, message)
  if is_sharded then redis.call('SPUBLISH', news_key, message) else redis.call('PUBLISH', news_key, message) end
end
