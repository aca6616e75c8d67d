"""Words that people use for each other when they search for a tool."""

from __future__ import annotations

from spindle.stores.stem import stem

# A line for words that mean the same in what tools do, whatever the tool.
_SAME = """
create make add new insert
get fetch read retrieve show view display
delete remove destroy erase
update edit change modify alter
search find lookup query locate
run execute launch
stop halt terminate
copy duplicate clone
start begin launch
restart reboot
purchase buy
picture image photo
email mail
folder directory dir
repository repo
organization organisation org
environment env
variable var envvar
configuration config
database db
documentation docs
authentication auth
authenticate login signin
specification spec
information info details
administrator admin
message msg
kubernetes k8s
statistics stats metrics
settings preferences options
spreadsheet sheet
website site
deploy deployment
phone telephone
invoice bill
person people human
zip postal postcode
ssl tls https certificate
pull merge
"""
# Words that often stand where another would do as well.
_NEAR = """
now current currently present live
new newest latest recent last
many number count total
usage use consumption
space storage size
whoami me current identity profile
user person member account
team group
person entity
fact knowledge observation
remember memory memorize store save
address location place
latitude coordinates location geocode
nearby near around local
directions route
high tall height elevation altitude
city town
price cost rate fee
money balance payment fund
charge pay payment
spend usage cost
subscription plan membership
customer client
product item goods
meeting event appointment
put insert add place
schedule calendar agenda
free available busy freebusy
vacation holiday absence away office
todo task
due deadline
subtask child
checklist todo
board kanban
comment note reply feedback review
reply respond answer responder
follower subscriber
boost reblog share
timeline feed
message mail text chat sms
email message
conversation thread discussion
inbox mailbox
bounce reject
spam abuse moderation harmful
template layout
preview render
recording transcript
transcribe transcription transcript speech
translate translation
music song track audio playback
play playback listen
volume loudness loud
artist band singer musician
lyrics tempo feature
podcast episode
skip next
draw generate picture
file document attachment
content block body page
cell range value row
revision version history
release version
log history output
commit history
staged index add
unstaged uncommitted
branch ref
stargazer star
collaborator contributor
pipeline build ci
server machine vm instance host droplet
cluster kubernetes
scale resize size
uptime availability
region location datacenter
cache cdn
form submission
webhook hook callback
token key credential secret
password credential
permission access share
login session
status state
warning alert
quality pollution
temperature weather
food meal dish cuisine
nutrition calorie nutrient
ingredient food
drink wine
recipe meal dish
replace substitute swap
model ai
embedding vector
text prompt string
rename name title
trash bin discard delete
pattern glob
"""
# What may be meant, among much else.
_LOOSE = """
create post open generate register compose write upload
get obtain see inspect download describe info
list all enumerate browse get show search
delete drop clear cancel trash
update patch put set replace adjust put
send post deliver submit write
search look discover browse list
run trigger invoke perform start
stop cancel kill end abort disable
start resume turn enable
upload import attach put
download export save
share permission access invite grant
move rename transfer
restore rollback revert undo reset
clear purge empty prune
prune unused
approve accept confirm allow review
meeting calendar
reject deny decline refuse
convert transform
retry rerun repeat
"""


def _collected() -> dict[str, dict[str, float]]:
    found: dict[str, dict[str, float]] = {}
    for groups, trust in ((_SAME, 0.8), (_NEAR, 0.65), (_LOOSE, 0.4)):
        for group in groups.strip().splitlines():
            stems = list(dict.fromkeys(map(stem, group.split())))
            for one in stems:
                known = found.setdefault(one, {})
                for other in stems:
                    if other != one:
                        known[other] = max(trust, known.get(other, 0.0))
    return found


_SYNONYMS = _collected()
_NONE: dict[str, float] = {}


def synonyms(stemmed: str) -> dict[str, float]:
    """The synonyms of a word, and how far each can be trusted to mean the same, all as stems."""
    return _SYNONYMS.get(stemmed, _NONE)
