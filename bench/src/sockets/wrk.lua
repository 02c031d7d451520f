-- wrk's figures as one line of JSON; its latencies are in microseconds.
function done(summary, latency, requests)
   local failed = summary.errors.connect + summary.errors.read + summary.errors.write
      + summary.errors.status + summary.errors.timeout
   if failed > 0 then
      print(failed .. " requests failed")
      return
   end
   print(string.format(
      '{"requests": %d, "seconds": %.6f, "p50_us": %.1f, "p99_us": %.1f, "p999_us": %.1f}',
      summary.requests, summary.duration / 1e6,
      latency:percentile(50), latency:percentile(99), latency:percentile(99.9)))
end
