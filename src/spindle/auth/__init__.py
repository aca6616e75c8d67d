"""Who a call is made for, as its source sees it."""
